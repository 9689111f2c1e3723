"""``leanrnn report``: what the page, the Markdown and the values say is what the folders of the runs say."""

import csv
import json
import re
import shlex
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import leanrnn
from leanrnn.cli.main import main
from leanrnn.cli.train import parse_train
from leanrnn.lab import RECIPES
from leanrnn.lab.report.again import train_command
from leanrnn.lab.report.drawing import LAYERS, RUNS
from leanrnn.lab.report.figures import colour, course, latency, marks, norms
from leanrnn.lab.report.labels import GAP, _spread
from leanrnn.lab.report.story import read_stories
from leanrnn.lab.report.strips import GONE, THERE, _matrices
from leanrnn.lab.report.tables import runs_table
from leanrnn.lab.report.words import sentence, summary, title
from tests.support.tiny import DENSE, SMALL, go, write_book

QUICK = ["--seconds", "0"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Runs: one that loses components, a dense one, one that is under way, and one of a single layer."""
    folder = tmp_path_factory.mktemp("made")
    go(folder / "runs" / "lean")
    go(folder / "runs" / "dense", DENSE)
    go(folder / "runs" / "going", steps=100)
    go(folder / "runs" / "single", replace(DENSE, widths=(7,), epochs=1))
    return folder


@pytest.fixture(autouse=True)
def folder(made, tmp_path, monkeypatch) -> Path:
    """A copy of them to work in."""
    shutil.copytree(made / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Page(HTMLParser):
    """Elements of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in tags]


def read(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def result(name: str) -> dict:
    return json.loads(Path("runs", name, "result.json").read_text())


def test_numbers_are_those_of_the_runs(capsys):
    command = ["report", "runs/dense", "runs/lean", "--markdown", "--csv", "--json", *QUICK]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == ["report.html", "report.md", "report.csv"] and told["measured"] == []
    page, text = Path("report.html").read_text(), Path("report.md").read_text()
    for name, facts in zip(("dense", "lean"), told["runs"], strict=True):
        known = result(name)
        assert facts["valid"] == known["valid"] and facts["test"] == known["test"]
        assert facts["sizes"] == [known["embedding"], *known["widths"]] and facts["weights"] == known["weights"]
        assert facts["seconds"] == pytest.approx(known["seconds"], abs=0.06)
        sizes = " + ".join(map(str, facts["sizes"]))
        for number in (f"{known['valid']:.2f}", f"{known['test']:.2f}", f"{known['weights']:,}", sizes):
            assert number in page and f"| {number} |" in text
    assert told["runs"][1]["first_sizes"] == [12, 16, 14] != told["runs"][1]["sizes"]
    lines = [json.loads(line) for n in ("dense", "lean") for line in read(f"runs/{n}/metrics.jsonl")]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    rows = list(csv.DictReader(read("report.csv")))
    assert [float(row["valid"]) for row in rows] == [line["valid"] for line in epochs]
    assert [int(row["alive layers.0.l0"]) for row in rows] == [
        line["alive"].get("layers.0.l0", line["widths"]["layers.0.l0"]) for line in epochs
    ]
    assert "layers.0.weight_hh_l0, layers.1.weight_ih_l0" in page and "layers.0.weight_hh_l0" in text


def test_page_is_whole_in_itself():
    assert main(["report", "runs/dense", "runs/lean", *QUICK]) == 0
    text = Path("report.html").read_text()
    page = Page(text)
    assert page.all("script", "iframe", "object", "form") == [] and "@import" not in text and "http-equiv" in text
    assert "default-src 'none'" in text
    references = [each.get(key) for _, each in page.found for key in ("href", "src", "xlink:href") if key in each]
    references += re.findall(r"url\(([^)]*)\)", text)
    assert references and all(each.startswith(("#", "data:")) for each in references)
    names = [each["id"] for _, each in page.found if "id" in each]
    assert len(names) == len(set(names))
    assert {each[1:] for each in references if each.startswith("#")} <= set(names)
    pictures = page.all("svg")
    # quality against size; of the dense run the perplexities alone; of the lean one the course, matrices and norms
    assert len(pictures) == 1 + 1 + (2 + 6 + 3) and "Nothing was cut out" not in text
    assert all(each["role"] == "img" and len(each["aria-label"]) > 20 for each in pictures)
    assert all(each.get("scope") in ("col", "row") for each in page.all("th"))
    levels = [int(tag[1]) for tag, _ in page.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in pairwise(levels))
    assert len(text) < 250_000
    assert main(["report", "runs/dense", "runs/lean", *QUICK]) == 0 and Path("report.html").read_text() == text


def test_times_are_drawn_and_listed(capsys):
    quick = ["--seconds", "0.01", "--threads", "1", "--runtimes", "torch"]
    assert main(["report", "runs/lean", "--json", "--markdown", *quick]) == 0
    (row,) = json.loads(capsys.readouterr().out)["measured"]
    assert row["model"] == "lean" and row["threads"] == 1
    assert f"{row['milliseconds']:.2f}" in Path("report.html").read_text()
    assert f"| lean, torch, 1 thread | {row['milliseconds']:.2f} (" in Path("report.md").read_text()
    noisy = row | {"threads": 4, "milliseconds": 9.87, "quartiles": (0.5, 80.0), "noisy": True}
    panels = latency([row | {"noisy": False}, noisy], ["lean"])
    assert "1 thread:" in panels[0] and "4 threads" in panels[1] and "9.87 noisy" in panels[1] and len(panels) == 2
    assert "noisy" not in panels[0]


def test_the_lead_is_a_sentence_that_compares_and_says_what_is_unfair(capsys):
    stories = read_stories([Path("runs/dense"), Path("runs/lean"), Path("runs/going")])
    dense, lean, going = stories
    fewer, higher = dense.mult_adds / lean.mult_adds, lean.valid / dense.valid
    told = summary([replace(dense, result=dense.result | {"valid": lean.valid - 1}), lean], [])
    assert told.startswith(f"Of 2 runs, dense has the best validation perplexity ({lean.valid - 1:.2f}); lean needs ")
    assert f"{fewer:.1f} times fewer mult-adds and has {lean.valid:.2f}, " in told and higher > 0
    told = summary(stories, [])
    assert f"Numbers of epochs: dense 4, lean 4, going {going.done}." in told and "Not finished: going." in told
    assert summary([dense, replace(dense, name="again")], []).endswith("same number of mult-adds. Nothing was cut out.")
    idle = replace(lean, name="idle", model=dense.model)
    assert summary([lean, idle], []).endswith("Nothing was cut out of idle.")
    assert summary([dense], []).startswith("dense kept its size") and summary([dense], []).endswith("cut out.")
    row = {"noisy": True, "milliseconds": 1.0}
    assert "do not compare their times" in summary([dense], [row])
    assert main(["report", "runs/dense", "runs/lean", *QUICK]) == 0
    page = Path("report.html").read_text()
    assert page.count('<p class="lead">') == 1 and f"<p>{sentence(lean)[:30]}" in page


def test_a_colour_is_one_run(capsys):
    (dense, lean) = read_stories([Path("runs/dense"), Path("runs/lean")])
    both = [dense, lean]
    for i, story in enumerate(both):
        assert colour(story, both) == RUNS[i]
        drawn = "".join([*course(story, both)[:1], *norms(story, [story])])
        assert RUNS[i] in course(story, both)[0] and not any(other in drawn for other in RUNS[2:])
    assert set(RUNS).isdisjoint(LAYERS) and RUNS[0] not in course(lean, both)[1]


def test_progress_is_told_while_a_page_is_made(monkeypatch):
    told = []
    monkeypatch.setattr("leanrnn.cli.report.reading", lambda as_json: nullcontext(lambda *each: told.append(each)))
    assert main(["report", "runs/lean", "--seconds", "0.01", "--threads", "1", "--runtimes", "torch"]) == 0
    whats = list(dict.fromkeys(what for what, _, _ in told))
    assert whats == [
        "reading the runs", "exporting the models", "timing", "measuring the memory", "drawing the page",
    ]  # fmt: skip
    assert all((what, total, total) in told for what, _, total in told)


def test_strips_are_the_weights_in_their_first_place():
    (story,) = read_stories([Path("runs/lean")])
    cut = [len(set(range(n)) - set(kept)) for n, kept in ((16, story.plan.layers["layers.0.l0"]), (14, range(14)))]
    assert cut[0] == 16 - story.sizes[1] > 0
    layer, second, head = _matrices(story)
    assert layer.before.shape == (12 + 16, 4 * 16) and layer.after.shape == (sum(story.sizes[:2]), 4 * story.sizes[1])
    for matrix in (layer, second, head):
        assert (matrix.before == THERE).sum() == (matrix.after == THERE).sum() > 0
        assert (matrix.before != GONE).sum() == matrix.after.size and (matrix.after != GONE).all()
    gone = np.setdiff1d(np.arange(16), story.plan.layers["layers.0.l0"])
    for gate in range(4):  # what a component has in all four gates, and what reads it, is empty
        assert (layer.before[:, 16 * gate + gone] == GONE).all()
    assert (layer.before[12 + gone] == GONE).all() and (second.before[gone] == GONE).all()
    weight = story.model.head.weight.detach().numpy()
    assert (head.after == THERE).sum() == (weight != 0).sum()


def test_norms_tell_the_dead():
    assert main(["report", "runs/lean", *QUICK]) == 0
    sizes, text = [result("lean")["embedding"], *result("lean")["widths"]], Path("report.html").read_text()
    for name, first, now in zip(("embedding", "layer 1", "layer 2"), (12, 16, 14), sizes, strict=True):
        assert f"Norms of the groups of {name}: {first - now} of {first} are zero" in text
    (story,) = read_stories([Path("runs/lean")])
    weights = {name: tensor.detach() for name, tensor in story.model.named_parameters()}
    strips = (weights["layers.1.weight_ih_l0"], weights["layers.1.weight_hh_l0"])
    rows = [strip.view(4, sizes[2], -1)[:, 0] for strip in strips]
    squares = sum((part**2).sum() for part in (*rows, strips[1][:, 0], weights["head.weight"][:, 0]))
    assert min(abs(norm**2 / float(squares) - 1) for norm in story.norms["layers.1.l0"]) < 0.1


def test_a_run_under_way_is_told_as_such():
    assert main(["report", "runs/going", "runs/dense", "--markdown", *QUICK]) == 0
    (story,) = read_stories([Path("runs/going")])
    assert story.result is None and story.test is None and 0 < len(story.epochs) < 4
    text = Path("report.md").read_text()
    assert f"It is not finished: this is its last checkpoint, after epoch {len(story.epochs)} of 4." in text
    with Path("runs/going/metrics.jsonl").open("a") as file:
        file.write('{"kind": "epo')  # in the making
    assert main(["report", "runs/going", *QUICK]) == 0


def test_runs_of_other_layers_stand_in_one_table(capsys):
    assert main(["report", "runs/single", "runs/lean", "--csv", "--markdown", *QUICK]) == 0
    first, *_, last = list(csv.DictReader(read("report.csv")))
    assert first["run"] == "single" and first["alive layers.0.l0"] == "7" and first["alive layers.1.l0"] == ""
    assert last["alive layers.1.l0"] == str(result("lean")["widths"][1])
    assert "mult-adds" in Path("report.md").read_text().splitlines()[2]
    shutil.copytree("runs/lean", "other/lean")
    capsys.readouterr()
    assert main(["report", "runs/lean", "other/lean", "--json", *QUICK]) == 0
    assert [run["run"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["runs/lean", "other/lean"]
    assert "; all need the same number of mult-adds." in Path("report.html").read_text()


@pytest.mark.parametrize("name", ["text", "text-dense", "ptb-lstm-small-lean"])
def test_command_is_the_true_one(name):
    recipe = RECIPES[name].config
    changed = replace(
        recipe, widths=(30, 20, 10), strength=3e-3, everywhere=not recipe.everywhere, follow=not recipe.follow,
        keep_widths=(5, 5, 5), tokens="character", held_out=0.1, seed=7,
    )  # fmt: skip
    (story,) = read_stories([Path("runs/lean")])
    for config, data, start in ((recipe, "a b", None), (changed, None, "runs/x")):
        about = {"recipe": name, "config": config.to_json(), "start": start}
        environment = story.environment | {"data": data, "threads": "3 (between operators: 1)"}
        words = shlex.split(train_command(replace(story, about=about, environment=environment)))
        parsed = parse_train(words[2:])
        assert words[:3] == ["leanrnn", "train", name] and parsed.settings == config and parsed.threads == 3
        assert parsed.data == (data and Path(data)) and parsed.start == (start and Path(start))
        assert parsed.out == Path("runs/lean")
    assert train_command(story) == "leanrnn demo --out runs"  # which has no recipe


def test_a_run_from_the_command_line_and_one_started_from_it(capsys, folder):
    write_book(folder)
    train = ["--data", "book.txt", *SMALL, "--device", "cpu"]
    assert main(["train", "text-lean", *train, "--out", "runs/text", "--strength", "1e-6"]) == 0
    assert main(["shrink", "runs/text", "--out", "small.safetensors", "--ratio", "0.5"]) == 0
    assert main(["train", "text-dense", *train, "--start", "small.safetensors", "--out", "runs/on"]) == 0
    capsys.readouterr()
    assert main(["report", "runs/text", "runs/on", "--json", "--markdown", *QUICK]) == 0
    first, second = json.loads(capsys.readouterr().out)["runs"]
    settings = parse_train(["text-lean", *train, "--strength", "1e-6"]).settings
    words = shlex.split(first["command"])
    again = parse_train(words[2:])
    assert again.settings == settings and again.data == Path("book.txt") and again.threads == 1
    assert second["first_sizes"] == [8, 10, 9] and second["sizes"] == [8, 5, 5]
    assert "on comes from a model of 8 + 10 + 9" in Path("report.md").read_text()
    assert "--start small.safetensors" in second["command"]


def damage(path: str, text: str) -> None:
    Path(path).write_text(text)


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (None, [], "no run was named"),
        (None, ["nowhere"], "nowhere is no run"),
        (None, ["runs"], "runs is no run"),
        (None, ["runs/lean", "runs/../runs/lean"], "named twice"),
        (None, ["runs/lean", "--out", "no/report.html"], "there is no folder no for report.html. Create it first"),
        (None, ["runs/lean", "--out", "runs"], "runs is a folder"),
        (None, ["runs/lean", "--out", "report.md"], "Name it .html"),
        (None, ["runs/lean", "--threads", "0"], "at least 1"),
        (("config.json", "{"), ["runs/lean"], "runs/lean cannot be read as a run"),
        (("config.json", "[]"), ["runs/lean"], "runs/lean cannot be read as a run"),
        (("result.json", "{}"), ["runs/lean"], "runs/lean cannot be read as a run"),
        (("metrics.jsonl", "no\n"), ["runs/lean"], "runs/lean cannot be read as a run"),
        (("metrics.jsonl", ""), ["runs/lean"], "has no whole epoch yet"),
        (("environment.jsonl", ""), ["runs/lean"], "runs/lean cannot be read as a run"),
        (("model.safetensors", "no"), ["runs/lean"], "is damaged or no safetensors file"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(capsys, prepare, arguments, message):
    if prepare:
        damage(f"runs/lean/{prepare[0]}", prepare[1])
    before = sorted(Path().iterdir())
    assert main(["report", *arguments, *QUICK]) == 2
    err = capsys.readouterr().err
    assert message in err and err.startswith("error: ") and err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_a_page_appears_whole_or_not_at_all(capsys, monkeypatch):
    Path("report.html").write_text("the old one")

    def full(self, target):
        raise OSError(28, "No space left on device", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        assert main(["report", "runs/lean", *QUICK]) == 2
    assert "No space left" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] in (["runs", "report.html"], ["report.html", "runs"])
    assert Path("report.html").read_text() == "the old one"


def test_matplotlib_is_an_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", "runs/lean", *QUICK]) == 2
    assert "pip install leanrnn[report]" in capsys.readouterr().err


def test_names_of_points_stand_apart():
    places = _spread([50.0, 51.0, 10.0, 50.5, 99.0, 99.5], 100.0)
    ordered = sorted(places)
    assert all(b - a > GAP - 1e-6 for a, b in pairwise(ordered)) and ordered[-1] <= 100
    assert places.index(min(places)) == 2 and _spread([], 10.0) == []


def test_names_are_written_as_text():
    Path("runs/lean").rename("runs/a <b> & c")
    assert main(["report", "runs/a <b> & c", *QUICK]) == 0
    text = Path("report.html").read_text()
    assert "a &lt;b&gt; &amp; c" in text and "<b>" not in text
    assert leanrnn.__version__ in text


def test_many_runs_take_a_row_each_and_a_number():
    (story,) = read_stories([Path("runs/lean")])
    few, many = ([replace(story, name=f"run {i}") for i in range(count)] for count in (3, 8))
    head, rows = runs_table(few)
    assert head == ["", "run 0", "run 1", "run 2"] and rows[0][0] == "validation perplexity"
    assert marks(few) == head[1:] and title(few) == "What became of run 0, run 1 and run 2"
    turned, lines = runs_table(many)
    assert [line[0] for line in lines] == [each.name for each in many] and title(many) == "What became of 8 runs"
    assert [turned[1], lines[0][1]] == rows[0][:2] and all(len(line) == len(turned) for line in lines)
    assert marks(many) == [str(i + 1) for i in range(8)]
