"""The fixture itself: it notices what the tests rely on it to notice."""

import pytest


def test_errors_and_requests_are_noticed(browser, serve, tmp_path):
    (tmp_path / "index.html").write_text(
        '<link rel="icon" href="data:,"><h1>Hello</h1><img src="missing.png"><script>console.error("Oh")</script>'
    )
    address = serve(tmp_path)
    browser.open(address)
    browser.wait("document.images[0].complete")
    assert browser.requests() == [f"{address}missing.png"]
    told = browser.console()
    assert any("Oh" in line for line in told) and any("404" in line for line in told) and len(told) == 2
    browser.open("about:blank")
    assert browser.console() == [] and browser.requests() == []


def test_width_scheme_and_keys(browser, tmp_path):
    (tmp_path / "page.html").write_text("<a href='#a'>one</a> <a href='#b'>two</a>")
    browser.open(tmp_path / "page.html")
    browser.resize(380)
    assert browser.run("innerWidth") == 380
    for scheme in ("dark", "light"):
        browser.scheme(scheme)
        assert browser.run(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
    browser.press("TAB", "TAB", "ENTER")
    assert browser.run("document.activeElement.textContent + location.hash") == "two#b"
    with pytest.raises(TimeoutError, match="is still"):
        browser.wait("false", seconds=0.1)
