"""docs/dev/provenance.md says of every data file where it comes from."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePosixPath
from typing import Final

from tests.support.paths import REPO

PAGE: Final = REPO / "docs" / "dev" / "provenance.md"
PROGRAMS_AND_PROSE: Final = frozenset({".c", ".css", ".go", ".h", ".html", ".js", ".md", ".py", ".sh"})


def data_files() -> list[str]:
    """The files of the repository, and those about to be added, that are neither program nor prose."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        name
        for name in sorted(set(listed.stdout.splitlines()))
        if PurePosixPath(name).suffix not in PROGRAMS_AND_PROSE and (REPO / name).exists()
    ]


def patterns() -> dict[str, re.Pattern[str]]:
    """The patterns of the page's tables: what stands in backquotes in their first column."""
    found = {}
    for row in re.findall(r"^\| (`.+?`) \|", PAGE.read_text(), re.MULTILINE):
        for pattern in re.findall(r"`([^`]+)`", row):
            parts = re.split(r"(\*\*|\*)", pattern)
            expression = "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
            found[pattern] = re.compile(expression)
    return found


def test_every_data_file_has_a_row_and_every_row_a_file() -> None:
    known = patterns()
    about = {file: next((t for t, pattern in known.items() if pattern.fullmatch(file)), None) for file in data_files()}
    assert [file for file, row in about.items() if row is None] == []
    assert [row for row in known if row not in about.values()] == []


def test_every_machine_names_its_source() -> None:
    machines = [
        *(REPO / "examples" / "machines").glob("*.yaml"),
        *(REPO / "tests" / "data" / "machines").glob("*.yaml"),
    ]
    assert len(machines) > 10
    without = [path.name for path in machines if not re.search(r"^source: \S", path.read_text(), re.MULTILINE)]
    assert without == ["fpga-server.yaml"]
