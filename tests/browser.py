"""A real browser for the tests: Debian's chromium, headless, driven by playwright.

Without it the tests that want one are skipped; with ``BROWSER=required`` in the environment they
fail. Whatever a page complains of fails the test, and so does a request that would leave this
machine (it is not sent).
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Route, sync_playwright

CHROMIUM = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_HERE = re.compile(r"(?:file|data|blob|about):|(?:http|ws)://(?:127\.0\.0\.1|localhost)[:/]")


def chromium() -> Path | None:
    """The installed browser, if there is one."""
    found = (shutil.which(name) for name in CHROMIUM)
    return next((Path(path) for path in found if path), None)


class Complaints:
    """What a page and its network had to complain of.

    A test that provokes one calls ``expect`` afterwards; all others fail it at its end.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def expect(self, pattern: str) -> None:
        """At least one complaint matches the pattern; those that do are forgiven."""
        kept = [text for text in self.seen if not re.search(pattern, text)]
        assert len(kept) < len(self.seen), f"nothing like {pattern!r} among {self.seen}"
        self.seen = kept

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.seen.append(f"page error: {_told(error)}"))
        page.on("crash", lambda _: self.seen.append("the page crashed"))

    def guard(self, route: Route) -> None:
        if _HERE.match(route.request.url):
            route.continue_()
        else:
            self.seen.append(f"a request to the outside: {route.request.url}")
            route.abort()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.seen.append(f"console {message.type}: {message.text}")


def _told(error: Error) -> str:
    return error.stack or error.message


def quickest_s(
    action: Callable[[], object], *, before: Callable[[], object] = lambda: None, tries: int = 4
) -> float:
    """How long an action takes where nothing else runs, in seconds: the quickest of a few tries.

    Each is divided by how many times slower than its own CPU time the machine just then lets a
    process be, as others may keep it busy.
    """
    found = []
    for _ in range(tries):
        before()
        slower = _waits()
        began_s = time.monotonic()
        action()
        took_s = time.monotonic() - began_s
        found.append(took_s / max(1.0, (slower + _waits()) / 2))
    return min(found)


def _waits(cpu_s: float = 0.2) -> float:
    """Wall time over CPU time of some work."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < cpu_s:
        pass
    return (time.monotonic() - wall) / (time.process_time() - cpu)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module and no longer: playwright's event loop runs in the thread of the tests."""
    path = chromium()
    if path is None:
        assert os.environ.get("BROWSER") != "required", "chromium is missing"
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        yield running
        running.close()


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def page(browser: Browser, complaints: Complaints) -> Iterator[Page]:
    """An empty page of 1400 × 900 pixels in a profile of its own; ``complaints`` are its own."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.route("**/*", complaints.guard)
    opened = context.new_page()
    complaints.watch(opened)
    yield opened
    context.close()
    assert not complaints.seen, complaints.seen
