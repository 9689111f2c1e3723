"""The page of ``leanrnn report`` as a reader meets it: on a desk, on a phone, in the dark, by keyboard, on paper."""

from pathlib import Path

import pytest

from leanrnn.cli.main import main
from tests.support.tiny import DENSE, go

WIDTHS = (380, 768, 1280)
SCHEMES = ("light", "dark")
# Elements that reach out of the window, but for those inside what scrolls by itself.
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(each => {
  const box = each.getBoundingClientRect()
  return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5) && !each.closest('.scroll > *, svg *')
}).map(each => each.outerHTML.slice(0, 80))"""
# Relative luminance, and the contrast of two colours, as WCAG 2 defines them.
CONTRAST = """(() => {
  const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const paper = light(getComputedStyle(document.body).backgroundColor)
  const against = colour => { const two = [light(colour), paper].sort((a, b) => b - a)
    return (two[0] + 0.05) / (two[1] + 0.05) }
  const shown = [...document.querySelectorAll(arguments[0])]
  return shown.map(each => against(getComputedStyle(each)[arguments[1]]))
})(arguments)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a run that lost components and a dense one, with times."""
    folder = tmp_path_factory.mktemp("page")
    go(folder / "lean")
    go(folder / "dense", DENSE)
    out = folder / "report.html"
    quick = ["--seconds", "0.01", "--threads", "1", "--runtimes", "torch"]
    assert main(["report", str(folder / "dense"), str(folder / "lean"), "--out", str(out), *quick]) == 0
    return out


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_loads_quietly_and_fits(browser, page, width, scheme):
    browser.resize(width)
    browser.scheme(scheme)
    browser.open(page)
    assert browser.console() == [] and browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(OVERFLOWING) == []
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    boxes = "[...document.querySelectorAll('.scroll')].map(each => each.scrollWidth - each.clientWidth)"
    assert max(browser.run(boxes)) <= (0 if width == 380 else 400)  # on a phone no table is cut off
    sizes = browser.run("[...document.querySelectorAll('svg')].map(each => each.getBoundingClientRect().toJSON())")
    assert len(sizes) == 14 and all(size["width"] > 240 and size["height"] > 40 for size in sizes)
    images = browser.run("[...document.querySelectorAll('svg image')].map(each => each.getBoundingClientRect().width)")
    assert len(images) == 6 and min(images) > 20


def test_letters_in_pictures_can_be_read_on_a_phone(browser, page):
    browser.resize(380)
    browser.open(page)
    text = "[...document.querySelectorAll('svg text')]"
    scaled = "parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a"
    assert min(browser.run(f"{text}.map(each => {scaled})")) > 9.5
    outside = f"{text}.filter(each => each.getBoundingClientRect().right > innerWidth).length"
    assert browser.run(outside) == 0


def test_headings_alternatives_and_table_headers(browser, page):
    browser.open(page)
    assert browser.run("document.title") == "What became of dense and lean"
    heads = browser.run("[...document.querySelectorAll('h1, h2')].map(each => each.textContent)")
    wanted = ["What became of dense and lean", "The runs", "How fast they are", "dense", "lean"]
    assert heads == [*wanted, "To do it again"]
    told = browser.run("[...document.querySelectorAll('svg')].map(each => [each.role, each.ariaLabel])")
    assert all(role == "img" and len(label) > 20 for role, label in told)
    assert browser.run("[...document.querySelectorAll('figure')].every(each => each.querySelector('figcaption'))")
    tables = browser.run("""[...document.querySelectorAll('table')].map(each => [
      each.querySelectorAll('thead th[scope=col]').length, each.querySelectorAll('tbody tr').length,
      each.querySelectorAll('tbody th[scope=row]').length, each.rows[0].cells.length])""")
    assert len(tables) == 5 and all(cols == cells > 1 and rows == heads > 0 for cols, rows, heads, cells in tables)


def test_keyboard_reaches_every_link_and_opens_what_is_folded(browser, page):
    browser.open(page)
    wanted = browser.run("[...document.querySelectorAll('a')].map(each => each.hash)")
    reached, outlines = [], []
    for _ in wanted:
        browser.press("TAB")
        reached.append(browser.run("document.activeElement.hash"))
        outlines.append(browser.run("getComputedStyle(document.activeElement).outlineStyle"))
    assert reached == wanted and len(wanted) == 5 and set(outlines) == {"solid"}
    browser.press("ENTER")
    assert browser.run("location.hash") == wanted[-1] == "#again"
    browser.wait("document.querySelector('#again').getBoundingClientRect().top < innerHeight")
    for _ in range(20):
        browser.press("TAB")
        if browser.run("document.activeElement.tagName") == "SUMMARY":
            break
    browser.press("ENTER")
    assert browser.run("document.activeElement.parentElement.open")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_contrast(browser, page, scheme):
    browser.scheme(scheme)
    browser.open(page)
    assert min(browser.run(CONTRAST, "p, li, a, td, th, figcaption, summary, h2", "color")) > 4.5
    assert min(browser.run(CONTRAST, "svg text", "fill")) > 4.5
    bars = "svg path[style*='fill: #'], svg rect[style*='fill: #']"
    assert min(browser.run(CONTRAST, bars, "fill")) > 3


def test_prints_on_a_few_pages_in_black_on_white(browser, page, tmp_path):
    browser.scheme("dark")
    browser.open(page)
    browser.print(tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF") and 3 <= content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") <= 9
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    colours = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    assert browser.run(colours) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
