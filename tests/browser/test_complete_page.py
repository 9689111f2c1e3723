"""The page of ``leanrnn demo`` in Chromium: from disk, without a network, it writes what onnxruntime in Python does."""

import re
import runpy
from pathlib import Path

import pytest

import leanrnn
from leanrnn.errors import ExportError
from leanrnn.lab.web.page import write_page
from leanrnn.lab.web.runtime import fetch
from tests.support.served import LETTERS, exported

SERVE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "serve_onnx.py"))
WORDS = ["<unk>", *"the a list lists of items is not , . ( ) [ ] returns return method methods in or</script>".split()]
WORDS += [f"word{i}" for i in range(200)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A dense file and a lean one of eight bits, and the page of both."""
    try:
        runtime = fetch()
    except ExportError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("page")
    dense, _ = exported(folder, WORDS, "dense", widths=(64, 64))
    lean = leanrnn.quantize(exported(folder, WORDS, "lean")[0]).path
    write_page(dense, lean, folder / "complete.html", prompt="the method ", runtime=runtime)
    letters, _ = exported(folder, LETTERS, "letters", tokens="character")
    write_page(letters, leanrnn.quantize(letters).path, folder / "letters.html", runtime=runtime)
    return folder


def opened(browser, page: Path) -> None:
    browser.open(page)
    assert browser.wait("document.body.dataset.state", seconds=120) == "ready", browser.console()


def words(path: Path, text: str, count: int = 12) -> list[str]:
    """What onnxruntime in Python goes on with, the likeliest word each time."""
    return list(SERVE["load"](path).write(text, count, temperature=0))


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def shown(browser, name: str, wanted: list[str]) -> None:
    """Wait until a model's words are these."""
    text = f"document.getElementById('{name}').textContent"
    try:
        browser.wait(rf"({text}.match(/\w+|[^\w\s]/g) ?? []).join(' ') === '{' '.join(tokens(' '.join(wanted)))}'")
    except TimeoutError:
        assert tokens(browser.run(text)) == wanted
        raise


def test_both_models_write_what_onnxruntime_writes(browser, files):
    opened(browser, files / "complete.html")
    text = "the method "
    for more in ("", "returns the list ( of ", "strange items ) , "):
        browser.press(*more)  # a key at a time: what was read before is kept as a state
        text += more
        for name, path in (("lean", files / "lean.int8.onnx"), ("dense", files / "dense.onnx")):
            shown(browser, f"{name}-words", words(path, text))
        assert browser.run("document.getElementById('text').value") == text
    browser.press(*["BACKSPACE"] * len("strange items ) , "))
    shown(browser, "lean-words", words(files / "lean.int8.onnx", "the method returns the list ( of "))
    assert browser.console() == [] and browser.requests() == []


def test_a_word_that_is_begun_is_completed(browser, files):
    opened(browser, files / "complete.html")
    browser.press(*"the ret")
    model = SERVE["load"](files / "lean.int8.onnx")
    state = model.start()
    for token in model.tokens("the method the"):
        scores, state = model.step(token, state)
    first = max(("return", "returns"), key=lambda word: scores[WORDS.index(word)])
    rest = words(files / "lean.int8.onnx", f"the method the {first}", 11)
    shown(browser, "suggestion", [first.removeprefix("ret"), *rest])


def test_tab_takes_the_words_and_escape_turns_them_down(browser, files):
    opened(browser, files / "complete.html")
    wanted = words(files / "lean.int8.onnx", "the method ")
    shown(browser, "suggestion", wanted)
    assert browser.run("document.activeElement.id") == "text"
    browser.wait("document.getElementById('told').textContent.startsWith('Suggested: ')")
    assert browser.run("document.getElementById('told').getAttribute('aria-live')") == "polite"
    browser.press("TAB")
    text = browser.run("document.getElementById('text').value")
    assert tokens(text) == ["the", "method", *wanted] and browser.run("document.activeElement.id") == "text"
    shown(browser, "suggestion", words(files / "lean.int8.onnx", text))
    browser.press("ESCAPE")
    assert browser.run("document.getElementById('suggestion').textContent.trim().replace('\\u200b', '')") == ""
    browser.press("TAB")  # now the key is the browser's again
    assert browser.run("document.activeElement.id") != "text"
    assert browser.run("document.getElementById('text').value") == text


def test_the_button_takes_them_too(browser, files):
    opened(browser, files / "complete.html")
    wanted = words(files / "lean.int8.onnx", "the method ")
    shown(browser, "suggestion", wanted)
    browser.run("document.getElementById('take').click()")
    assert tokens(browser.run("document.getElementById('text').value")) == ["the", "method", *wanted]


def test_numbers_stand_beside_each_other(browser, files):
    opened(browser, files / "complete.html")
    browser.wait("document.getElementById('lean-time').textContent")
    for name, path in (("dense", files / "dense.onnx"), ("lean", files / "lean.int8.onnx")):
        text = {what: browser.run(f"document.getElementById('{name}-{what}').innerText") for what in ("file", "time")}
        assert text["file"].startswith(f"{path.stat().st_size / 1e6:.2f} MB")
        assert float(text["time"].split()[0]) > 0
    assert browser.run("document.getElementById('lean-units').textContent") == "24 + 20"
    weights = sum(p.numel() for p in exported(files, WORDS, "again")[1].parameters())
    assert browser.run("document.getElementById('lean-weights').innerText").startswith(f"{weights:,}")
    assert "times as fast" in browser.run("document.getElementById('lean-time').innerText")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_of_a_telephone(browser, files, scheme):
    browser.resize(380)
    browser.scheme(scheme)
    opened(browser, files / "complete.html")
    browser.press(*"word1 " * 20)
    browser.wait("document.getElementById('lean-time').textContent")
    assert browser.run("document.documentElement.scrollWidth") == 380
    heights = "[...document.querySelectorAll('.paper > *')].map((each) => each.getBoundingClientRect().height)"
    box, ghost = browser.run(heights)
    assert box == ghost > 150  # the box has grown with the text
    assert browser.console() == []


def test_letters_are_written_too(browser, files):
    opened(browser, files / "letters.html")
    browser.press(*"ab Tc")
    wanted = "".join(words(files / "letters.int8.onnx", "ab Tc", 60))
    browser.wait(f"document.getElementById('suggestion').textContent === {wanted!r}")
