"""Chromium for tests: a fixture ``browser`` that looks at pages, and ``serve`` for pages that need a server.

    def test_my_page(browser, serve, tmp_path):
        (tmp_path / "index.html").write_text("<h1>Hello</h1>")
        browser.open(serve(tmp_path))          # or browser.open(tmp_path / "index.html"), without a server
        browser.wait("document.querySelector('h1')")
        assert browser.console() == [] and browser.requests() == []

These tests are not part of ``make test``: ``make test-browser`` runs them, with Debian's ``chromium`` and
``chromium-driver``, or whatever CHROMIUM and CHROMEDRIVER point at.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

# Nothing but the page may use the network, or what a test counts would not be the page's.
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --disable-default-apps
--no-default-browser-check --hide-scrollbars --mute-audio""".split()


class Browser:
    """A fresh Chromium with a profile of its own. ``driver`` is selenium's, for whatever is missing here."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._seen: list[dict[str, Any]] = []
        self._told: list[str] = []

    def open(self, page: str | Path) -> None:
        """Load a file or an address; what was logged before is forgotten."""
        self._collect()
        self._seen.clear()
        self._told.clear()
        self.driver.get(page if isinstance(page, str) else page.resolve().as_uri())

    def run(self, script: str, *arguments: object) -> Any:
        """What an expression of JavaScript is; ``arguments[0]`` and so on are what is given here. A promise is waited
        for."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, condition: str, seconds: float = 20) -> Any:
        """Wait until an expression is true, and return it."""
        end = time.monotonic() + seconds
        while not (found := self.run(condition)):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} is still {found!r} after {seconds} s; console: {self.console()}")
            time.sleep(0.05)
        return found

    def resize(self, width: int, height: int = 800) -> None:
        """Size of the page in CSS pixels, however narrow; a window cannot be as narrow as a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scheme(self, name: str) -> None:
        """What a user has asked the system for: ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def press(self, *keys: str) -> None:
        """Press keys one after the other; names are those of selenium's ``Keys``, such as ``TAB`` or ``ENTER``."""
        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def console(self) -> list[str]:
        """Warnings and errors since the page was opened, exceptions that nobody caught among them."""
        self._collect()
        return list(self._told)

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, besides the page itself; ``data:`` and ``blob:`` are none."""
        self._collect()
        asked = [
            event["params"]["request"]["url"] for event in self._seen if event["method"] == "Network.requestWillBeSent"
        ]
        here = self.driver.current_url.partition("#")[0]
        return [url for url in asked if url.partition("#")[0] != here and not url.startswith(("data:", "blob:"))]

    def picture(self, path: Path) -> None:
        """The whole page as PNG, for somebody to look at."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]))

    def print(self, path: Path) -> None:
        """The page as PDF, as a user would print it on A4."""
        options = {"paperWidth": 8.27, "paperHeight": 11.69}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", options)["data"]))

    def _collect(self) -> None:
        """Chromium gives every line of a log once."""
        logged = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]
        self._seen += [event for event in logged if event["method"].startswith("Network.")]
        lines = self.driver.get_log("browser")
        self._told += [line["message"] for line in lines if line["level"] in ("WARNING", "SEVERE")]


def _program(variable: str, *names: str) -> str:
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.exit(
            f"there is no {names[0]} here. Install it (Debian: apt-get install chromium chromium-driver), or let "
            f"{variable} point at it.",
            returncode=1,
        )
    return found


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """The process behind ``browser``; starting one takes a second or more."""
    options = ChromeOptions()
    options.binary_location = _program("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, Service(_program("CHROMEDRIVER", "chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Chrome) -> Browser:
    """A browser at desktop width, light, without anything a test before has left."""
    chromium.execute_cdp_cmd("Network.clearBrowserCache", {})
    found = Browser(chromium)
    found.open("about:blank")
    found.resize(1280)
    found.scheme("light")
    return found


class _Handler(SimpleHTTPRequestHandler):
    """Says nothing, and lets a page share memory between threads, as WebAssembly with several does."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """``serve(folder)`` gives the address at which its files are, until the test ends."""
    servers: list[ThreadingHTTPServer] = []

    def start(folder: Path) -> str:
        server = ThreadingHTTPServer(("localhost", 0), functools.partial(_Handler, directory=str(folder)))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://localhost:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
