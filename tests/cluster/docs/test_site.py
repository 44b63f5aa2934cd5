"""The site in headless Chromium, opened from the disk: the search works, nothing is asked of other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.support.chromium import chromium
from tests.support.site import build_site

PAGES: Final = (
    "index",
    "user/index",
    "operator/install",
    "reference/command-line",
    "examples/index",
    "dev/architecture",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("site")
    built = build_site(folder)
    assert built.returncode == 0, built.stderr
    return folder.as_uri()


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture(params=[(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], ids=str)
def page(request: pytest.FixtureRequest, browser: Browser, asked: list[str]) -> Iterator[Page]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    context.set_default_timeout(15_000)
    page = context.new_page()

    def note(sent: Request) -> None:
        if not sent.url.startswith(("file:", "data:")):
            asked.append(sent.url)

    page.on("request", note)
    # The search fetches the pages that it found for a summary of each, which browsers refuse to pages from the disk.
    page.on("pageerror", lambda error: None if "Failed to fetch" in str(error) else asked.append(str(error)))
    yield page
    context.close()


def test_pages_fit_the_width_and_load_nothing_from_elsewhere(page: Page, site: str, asked: list[str]) -> None:
    for name in PAGES:
        page.goto(f"{site}/{name}.html")
        expect(page.locator("h1")).to_be_visible()
        # Wide tables and code scroll by themselves, and not the page.
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    assert asked == []


def test_the_search_finds_a_page(page: Page, site: str, asked: list[str]) -> None:
    page.goto(f"{site}/search.html?q=DevicesInUse")
    expect(page.locator("#search-results a").first).to_be_visible()
    assert "reasons" in " ".join(page.locator("#search-results a").evaluate_all("each => each.map(a => a.href)"))
    assert asked == []
