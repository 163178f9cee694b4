"""The browser of the tests sees what it must see."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from .browser import Complaints


def test_a_page_without_fault_has_no_complaint(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<!doctype html><title>a</title><h1>here</h1>")
    page.goto((tmp_path / "a.html").as_uri())
    assert page.inner_text("h1") == "here"


def test_errors_and_requests_to_the_outside_are_complaints(
    page: Page, complaints: Complaints
) -> None:
    page.set_content(
        "<img src='http://example.com/a.png'><script>console.error('woe')</script>"
        "<script>throw new Error('thrown')</script>"
    )
    page.wait_for_load_state("load")
    complaints.expect("console error: woe")
    complaints.expect("page error: .*thrown")
    complaints.expect("to the outside: http://example.com")
    complaints.expect("Failed to load resource")
