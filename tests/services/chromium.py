"""Debian's Chromium, driven by Playwright: pages that remember what they said to the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NO_ANSWER_MS = 120_000.0


def executable() -> str | None:
    """Chromium as Debian and others install it."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        None,
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless browser that asks no proxy."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-proxy-server"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """One page of a browser profile of its own, and what went wrong on it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def go(self, url: str) -> None:
        """Open an address, with no errors so far."""
        self.wrong.clear()
        self.page.goto(url)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.page.evaluate(script)

    def size(self, width: int, height: int = 800) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    def scheme(self, name: Literal["light", "dark"]) -> None:
        self.page.emulate_media(color_scheme=name)

    def violations(self) -> str:
        """Return what axe-core finds on the page, in words; an empty text when it finds nothing."""
        found = Axe().run(self.page)
        return found.generate_report() if found.violations_count else ""

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        width: int = self.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width


@contextmanager
def tab(browser: Browser) -> Iterator[Tab]:
    """Open a page with cookies of its own; errors of scripts and of the console are kept."""
    context = browser.new_context(viewport={"width": 1_280, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(NO_ANSWER_MS)
    opened = Tab(context.new_page())
    opened.page.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.page.on(
        "console", lambda said: opened.wrong.append(said.text) if said.type in ("error", "warning") else None
    )
    try:
        yield opened
    finally:
        context.close()
