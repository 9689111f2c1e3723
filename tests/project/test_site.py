"""The site: every link leads somewhere, every page has its place, every public name is in the reference."""

import re

import pytest

import leanrnn
from tools.markdown import markdown
from tools.site import ROOT, TOPICS, dead, reference, rewritten, sources

PAGES = {source: page for source, page in sources().items() if source.endswith(".md")}


@pytest.mark.parametrize("source", PAGES)
def test_links_of_a_page_lead_to_pages(source):
    rewritten(source, (ROOT / source).read_text())


def test_links_are_those_of_the_site():
    assert rewritten("README.md", "[a](docs/limits.md#x), [b](https://c.org)") == "[a](limits.md#x), [b](https://c.org)"
    assert rewritten("docs/index.md", "![a](scoreboard.svg) [b](../README.md)") == "![a](scoreboard.svg) [b](index.md)"
    assert rewritten("docs/index.md", "[a](../examples/tagger.py)") == "[a](examples.md#tagger)"
    below = "docs/frameworks/lightning.md"
    assert rewritten(below, "[a](../index.md#x) [b](accelerate.md)") == "[a](../overview.md#x) [b](accelerate.md)"
    assert rewritten("README.md", "```text\n[a](nothing.md)\n```") == "```text\n[a](nothing.md)\n```"
    with pytest.raises(LookupError, match=r"README\.md links to nothing\.md"):
        rewritten("README.md", "[a](nothing.md)")


def test_every_page_stands_in_the_navigation_once():
    nav = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(nav) == sorted({*PAGES.values(), "examples.md", "reference.md"})


def test_every_public_name_is_in_the_reference():
    names = [name for topic in TOPICS.values() for name in topic.split()]
    assert sorted([*names, "errors"]) == sorted(leanrnn.__all__)
    assert all(f".{name}\n" in reference() for name in names)


def test_docstrings_become_markdown():
    assert markdown("See :func:`~leanrnn.save`. ::\n\n    save(small)\n\nMore.") == (
        "See `save`.\n\n```python\nsave(small)\n```\n\nMore."
    )
    assert markdown("Two. ::\n\na = 1\nb = 2") == "Two.\n\n```python\na = 1\nb = 2\n```"
    assert markdown(".. code-block:: diff\n\n    + a\n      b\n\nEnd") == "```diff\n+ a\n  b\n```\n\nEnd"


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a> <a href="b.html#gone">y</a> <img src="no.png">')
    (tmp_path / "b.html").write_text(
        '<h1 id="there">b</h1> <a href="https://elsewhere.org">z</a> <a href="#there">t</a>'
    )
    assert sorted(dead(tmp_path)) == ["a.html: b.html#gone (no such part)", "a.html: no.png"]
