"""A test that a page names exists, in the file that the page links to or in any."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.paths import REPO

_PAGES: Final = {
    page.relative_to(REPO).as_posix(): names
    for page in sorted((REPO / "docs").rglob("*.md"))
    if (names := re.findall(r"`(test_[a-z0-9_]+…?)`", page.read_text()))
}
_TESTS: Final = {
    name
    for file in (REPO / "tests").rglob("*.py")
    for name in re.findall(r"^ *def (test_\w+)", file.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("page", _PAGES)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    def exists(name: str) -> bool:
        if name.endswith("…"):
            return any(test.startswith(name.removesuffix("…")) for test in _TESTS)
        return name in _TESTS or any((REPO / "tests").rglob(f"{name}.py"))

    assert [name for name in _PAGES[page] if not exists(name)] == []
