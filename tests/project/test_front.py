"""What the first page says is what was measured."""

import json

from benchmarks.common import RESULTS, ROOT, between_marks, table
from benchmarks.front.results import HEAD, rows
from tools import badges

PAGE = (ROOT / "README.md").read_text()


def test_table_is_of_the_results():
    assert table(HEAD, rows()) in PAGE and between_marks(PAGE, table(HEAD, rows()), "front,") == PAGE


def test_random_architectures_are_as_many_as_were_tried():
    soak = json.loads((RESULTS / "soak.json").read_text())
    assert f"{soak['models']:,} random architectures were cut" in PAGE and soak["mismatches"] == []


def test_published_models_are_those_of_the_page():
    models = json.loads((RESULTS / "reach.json").read_text())["models"].values()
    exact, refused = (sum(m["result"] == result for m in models) for result in ("exact", "refused"))
    assert f"{len(models)} published models were tried" in PAGE
    assert f"{exact} cut exactly, {refused} refused" in PAGE


def test_page_is_short():
    assert len(PAGE.splitlines()) < 155


def test_badges_say_what_the_project_says():
    assert badges.PAGE.read_text() == badges.drawn() and dict(badges.badges())["licence"] in PAGE
