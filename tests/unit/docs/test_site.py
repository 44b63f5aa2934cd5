"""The site of the documents: strict, whole, and without anything from other hosts."""

from __future__ import annotations

import os.path
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.paths import REPO
from tests.support.site import build_site
from tools.site.pages import SiteError, address, linked, rewritten
from tools.site.staging import navigation, pages_outside, stage

_LOADED: Final = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
_OWN: Final = frozenset({"genindex.html", "search.html"})
"""Pages of the theme, which are no documents."""


class _Page(HTMLParser):
    """What a page of HTML links to, loads and can be linked at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build_site(folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, _Page]:
    return {path.relative_to(site).as_posix(): _Page(path) for path in site.rglob("*.html")}


def targets(name: str, page: _Page) -> Iterator[tuple[str, str, str]]:
    for link in page.links:
        parts = urlsplit(link)
        if not parts.scheme:
            path = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
            yield link, path, unquote(parts.fragment)


def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path, pages: dict[str, _Page]) -> None:
    dead = [
        f"{name}: {link}"
        for name, page in pages.items()
        for link, path, anchor in targets(name, page)
        if not (site / path).is_file() or (anchor and path in pages and anchor not in pages[path].anchors)
    ]
    assert dead == []


def test_every_page_is_reached_from_the_first(pages: dict[str, _Page]) -> None:
    reached, waiting = {"index.html"}, ["index.html"]
    while waiting:
        name = waiting.pop()
        for _, path, _ in targets(name, pages[name]):
            if path in pages and path not in reached:
                reached.add(path)
                waiting.append(path)
    assert set(pages) - reached - _OWN == set()


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[str, _Page]) -> None:
    loaded = {f"{name}: {each}" for name, page in pages.items() for each in page.loaded}
    assert {each for each in loaded if "//" in each.partition(": ")[2]} == set()
    sheets = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert [
        str(path) for path, text in sheets.items() if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text)
    ] == []


def test_the_navigation_has_every_document_once() -> None:
    nav = navigation()
    assert pages_outside(nav) == []
    assert {"Write claims", "Run it in a cluster", "Be on call", "Look it up"} <= set(nav)


def test_a_page_that_the_navigation_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = tmp_path / "nav.yaml"
    lacking.write_text((REPO / "docs" / "nav.yaml").read_text().replace("- docs/user/rdma.md\n", ""))
    monkeypatch.setattr("tools.site.staging.NAV", lacking)
    with pytest.raises(SiteError, match=r"nav\.yaml lacks docs/user/rdma\.md: name each page in the section"):
        stage(tmp_path / "source")


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "relative"])
def test_a_link_out_of_the_repository_is_refused_and_its_file_left_alone(
    absolute: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outside, repo = tmp_path / "outside.md", tmp_path / "repo"
    outside.write_text("mine\n")
    repo.mkdir()
    link = str(outside) if absolute else "../outside.md"
    (repo / "README.md").write_text(f"[notes]({link})\n")
    (repo / "nav.yaml").write_text("{}\n")
    monkeypatch.setattr("tools.site.staging.REPO", repo)
    monkeypatch.setattr("tools.site.staging.NAV", repo / "nav.yaml")
    with pytest.raises(SiteError, match=rf"README\.md: the link {re.escape(link)} leads to nothing"):
        stage(tmp_path / "source")
    assert outside.read_text() == "mine\n"


def test_a_dead_anchor_ends_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Page\n\n[dead](#nowhere)\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", "tools/site", source, tmp_path / "site"]
    built = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert built.returncode != 0
    assert "nowhere" in built.stderr


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("README.md", "index.md"),
        ("docs/user/README.md", "user/index.md"),
        ("docs/user/rdma.md", "user/rdma.md"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("docs/design/", "design/index.md"),
        ("examples/fpga.yaml", "examples/fpga.yaml.md"),
        ("docs/operator/images/dashboard-node.png", "operator/images/dashboard-node.png"),
    ],
)
def test_a_file_has_its_place(path: str, there: str) -> None:
    assert address(path) == there


def test_links_lead_to_where_the_site_has_things_and_code_stays() -> None:
    text = "[a](../../README.md#x) [b](../../examples) [c](https://k8s.io) [d](#here)\n```text\n[e](../gone.md)\n```\n"
    assert rewritten("docs/user/page.md", text, lambda path: path == "examples") == (
        "[a](../index.md#x) [b](../examples/index.md) [c](https://k8s.io) [d](#here)\n```text\n[e](../gone.md)\n```\n"
    )
    assert [path for _, path in linked("docs/user/page.md", text)] == ["README.md", "examples", "docs/user/page.md"]
