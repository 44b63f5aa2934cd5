"""Writes the site's source: the pages of the navigation, what they link to, and the images."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import yaml

from tools.site.pages import HOME, SiteError, address, index_page, linked, listing, rewritten, source_page

__all__ = ["NAV", "REPO", "navigation", "pages_outside", "stage"]

REPO: Final = Path(__file__).resolve().parents[2]
NAV: Final = REPO / "docs" / "nav.yaml"
_HIDDEN: Final = ("__pycache__",)


def navigation() -> dict[str, list[str]]:
    """Return the pages of each section, by their paths in the repository.

    Raises:
        SiteError: A page is named twice, or is not there.
    """
    nav: dict[str, list[str]] = yaml.safe_load(NAV.read_text(encoding="utf-8"))
    named: set[str] = set()
    for page in (page for pages in nav.values() for page in pages):
        if page in named:
            raise SiteError(f"{NAV.name}: {page} is there twice")
        if not (REPO / page).is_file():
            raise SiteError(f"{NAV.name}: there is no {page}")
        named.add(page)
    return nav


def pages_outside(nav: dict[str, list[str]]) -> list[str]:
    """Return the pages of ``docs`` that the navigation does not have."""
    named = {page for pages in nav.values() for page in pages}
    found = (page.relative_to(REPO).as_posix() for page in (REPO / "docs").rglob("*.md"))
    return sorted(page for page in found if page not in named)


def stage(folder: Path) -> None:
    """Write the site's source into an empty folder.

    Raises:
        SiteError: A page is missing in the navigation, or a link leads to nothing.
    """
    nav = navigation()
    if outside := pages_outside(nav):
        raise SiteError(f"docs/{NAV.name} lacks {', '.join(outside)}: name each page in the section of who reads it")
    named = {page for pages in nav.values() for page in pages}
    waiting, seen = [HOME, *sorted(named)], {HOME, *named}
    while waiting:
        path = waiting.pop()
        source = REPO / path
        if source.is_dir():
            # A folder's page is its README, as in the repository.
            page = f"{path}/README.md"
            text = (REPO / page).read_text(encoding="utf-8") if (REPO / page).is_file() else _listing(source)
        elif source.suffix == ".md":
            page, text = path, source.read_text(encoding="utf-8")
        else:
            _write_file(source, folder / address(path))
            continue
        for link, there in linked(page, text):
            # An absolute path would be read, and written where it is: joined to a folder, it stays as it is.
            if there.startswith(("..", "/")) or not (REPO / there).exists():
                raise SiteError(f"{page}: the link {link} leads to nothing")
            if there not in seen:
                seen.add(there)
                waiting.append(there)
        moved = rewritten(page, text, lambda there: (REPO / there).is_dir())
        if page == HOME:
            moved = index_page(moved, nav)
        elif page not in named:
            moved = f"---\norphan: true\n---\n\n{moved}"
        target = folder / address(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(moved, encoding="utf-8")


def _write_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".md":
        target.write_text(source_page(_name(source), source.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        shutil.copyfile(source, target)


def _listing(folder: Path) -> str:
    entries = sorted(entry for entry in folder.iterdir() if entry.name not in _HIDDEN)
    return listing(_name(folder), [(_name(entry), _about(entry)) for entry in entries])


def _name(entry: Path) -> str:
    return entry.relative_to(REPO).as_posix()


def _about(entry: Path) -> str:
    """Return the first comment of a file: what it is for."""
    if entry.is_dir() or entry.suffix not in (".yaml", ".sh"):
        return ""
    lines: list[str] = []
    for line in entry.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
