"""The rows of the table: the tests of this folder, each with its first line of documentation as the row's title."""

from __future__ import annotations

import ast
from pathlib import Path

__all__ = ["rows"]


def rows() -> dict[str, str]:
    """The title of each row by its name, in the table's order."""
    files = ("test_devices.py", "test_claims.py", "test_health.py", "test_parts.py")
    assert sorted(files) == sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    found = {}
    for file in files:
        for item in ast.parse((Path(__file__).parent / file).read_text()).body:
            if isinstance(item, ast.FunctionDef) and item.name.startswith("test_"):
                title = ast.get_docstring(item)
                assert title, f"{file}: {item.name} has no title"
                found[item.name.removeprefix("test_")] = title
    return found
