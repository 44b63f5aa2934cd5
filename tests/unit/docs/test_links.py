"""The documents point at what exists: links at files and headings, the architecture at modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import REPO

PAGES: Final = tuple(
    sorted(
        page.relative_to(REPO).as_posix()
        for page in (
            *REPO.glob("*.md"),
            *(
                page
                for folder in ("docs", "examples", "resourceclasses", "tests")
                for page in (REPO / folder).rglob("*.md")
            ),
        )
    )
)
ARCHITECTURE: Final = REPO / "docs" / "dev" / "architecture.md"
DESIGN: Final = tuple(sorted(page.name for page in (REPO / "docs" / "design").glob("*.md")))
MODULES: Final = tuple(
    path.relative_to(REPO).as_posix()
    for root in ("driver", "controller", "kubeletplugin", "tests", "tools")
    for path in (REPO / root).rglob("*.py")
)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: str) -> None:
    path = REPO / page
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_path_in_the_architecture_exists() -> None:
    named = set(
        re.findall(
            r"`((?:driver|controller|kubeletplugin|resourceclasses|examples|docs)/[\w./-]*)`", ARCHITECTURE.read_text()
        )
    )
    assert len(named) > 40
    assert sorted(name for name in named if not _exists(name)) == []


@pytest.mark.parametrize("page", DESIGN)
def test_every_module_in_a_design_page_exists(page: str) -> None:
    text = (REPO / "docs" / "design" / page).read_text()
    files = {
        name for name in re.findall(r"`([\w./]+\.py)`", text) if not any(f"/{m}".endswith(f"/{name}") for m in MODULES)
    }
    paths = set(re.findall(r"`((?:driver|controller)/[\w/]*)`", text))
    assert sorted(files | {path for path in paths if not _exists(path)}) == []


def _exists(name: str) -> bool:
    return (REPO / name).exists() or (REPO / f"{name}.py").exists()


def _prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", _prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = 1
        unique = anchor
        while unique in anchors:
            unique = f"{anchor}-{number}"
            number += 1
        anchors.add(unique)
    return anchors
