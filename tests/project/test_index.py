"""Programs that are named exist, are listed, and say what they do."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.common import between_marks, table
from benchmarks.index import PROGRAMS, README, find, rows

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "tools", "docs", "benchmarks", "examples", "results")


def texts() -> Iterator[tuple[Path, str]]:
    """Everything in which a program may be named; the change log tells of what was."""
    files = [path for path in ROOT.iterdir() if path.is_file() and path.suffix in {"", ".md", ".toml", ".txt"}]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    for path in files:
        if path.suffix in {"", ".py", ".md", ".json", ".toml", ".txt"} and path.name not in {"CHANGELOG.md", ".git"}:
            yield path, path.read_text(encoding="utf-8")


def test_a_program_is_found_by_the_words_it_has_to_itself():
    def found(line: str) -> list[object]:
        program, left = find(line.split())
        return [program.module, left]

    assert found("ptb time small --steps 3") == ["benchmarks.ptb.time", ["small", "--steps", "3"]]
    assert found("reach all") == ["benchmarks.reach.models", ["all"]] and found("reach") == [found("reach all")[0], []]
    assert found("reach own-model speech") == ["benchmarks.reach.own_model", ["speech"]]
    assert find(["ptb"]) is find(["--help"]) is find([]) is None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.words)
def test_every_program_tells_what_it_takes(program, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*program.words.split(), "--help"])
    assert capsys.readouterr().out.startswith(f"usage: {program.command} [-h]")


def test_list_needs_no_torch_and_has_every_program():
    code = "import sys; from benchmarks.__main__ import main; main([]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    *lines, torch = done.stdout.splitlines()
    assert torch == "False" and {line[2:20].strip() for line in lines} >= {program.words for program in PROGRAMS}


def test_what_is_no_program_is_told_what_there_is(capsys):
    with pytest.raises(SystemExit, match=r"ptb has no program 'tiem'\. It has\n  ptb train") as error:
        main(["ptb", "tiem"])
    assert "squad" not in str(error.value)
    with pytest.raises(SystemExit, match="No program is called 'ptp'"):
        main(["ptp"])
    main(["cost", "--help"])
    assert capsys.readouterr().out.split()[:2] == ["cost", "step"]


def test_readme_of_the_benchmarks_has_the_list():
    page = README.read_text()
    index = table(["command", "what it answers", "takes"], rows())
    assert index in page and between_marks(page, index, "index,") == page


def test_commands_that_are_named_exist():
    named = 0
    for path, text in texts():
        for package, module, line in re.findall(r"python -m (benchmarks|tools)\b(\.\w+)?([^`\"\n]*)", text):
            words = re.sub(r"(#| {2}).*", "", line.strip()).split()
            if package == "tools" and module:
                assert find_spec(package + module), f"{path.name}: {package}{module}"
            elif words and re.match(r"[a-z]", words[0]):
                assert not module and find(words), f"{path.name}: {line}"
            named += 1
    assert named > 100


def test_files_that_are_named_exist():
    for path, text in texts():
        named = re.findall(r"(?<![\w/.-])(?:benchmarks|tools|tests|examples)/[\w/.-]+\.(?:py|txt)\b", text)
        for name in named if path.suffix != ".json" else ():  # results tell what was
            assert (ROOT / name).exists(), f"{path.name}: {name}"
        assert not re.search(r"python (benchmarks|tools|tests)" + "/", text), path.name


def test_no_path_is_edited():
    edit = re.compile(r"sys\.path\.(insert|append|extend)|sys\.path\[|syspath" + "_prepend")
    found = [path for path, text in texts() if path.suffix == ".py" and edit.search(text)]
    assert [path.name for path in found] == ["factory.py"]  # where users' own models are


def test_archive_of_the_sources_has_what_its_tests_need():
    target = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert set(FOLDERS) <= set(target["include"])
    assert all((ROOT / name).exists() for name in target["include"])
