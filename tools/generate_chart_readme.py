# ruff: noqa: INP001 - a script, in no package
"""Writes the table of values into the chart's README from the comments in values.yaml.

A comment that begins with ``# --`` describes the value below it.

Usage: ``python tools/generate_chart_readme.py`` writes the file; with ``--check`` it only reports whether it is up to
date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import yaml

_CHART: Final = Path(__file__).resolve().parents[1] / "resourceclasses" / "chart"
VALUES: Final = _CHART / "values.yaml"
README: Final = _CHART / "README.md"
_BEGIN: Final = "<!-- Made by tools/generate_chart_readme.py from values.yaml. -->\n"
_END: Final = "<!-- End of the table. -->\n"
_MARK: Final = "# -- "
_LONGEST_DEFAULT: Final = 60  # characters; a longer one would make the table too wide to read


def described() -> dict[str, tuple[object, str]]:
    """Return default and description of each described value, by its path, in the file's order.

    Raises:
        ValueError: A value that holds no other has no description.
    """
    text = VALUES.read_text(encoding="utf-8")
    return dict(_described(yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text), text.splitlines(), ""))


def _described(
    node: yaml.Node | None, values: object, lines: list[str], prefix: str
) -> Iterator[tuple[str, tuple[object, str]]]:
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict) or not values:
        raise ValueError(f"{VALUES}: {prefix.rstrip('.')} needs a comment that begins with {_MARK}")
    for key, child in node.value:
        above = lines[key.start_mark.line - 1].strip()
        path, default = prefix + key.value, values[key.value]
        if above.startswith(_MARK):
            yield path, (default, above.removeprefix(_MARK))
        else:
            yield from _described(child, default, lines, path + ".")


def table() -> str:
    """Return the table in Markdown."""
    rows = ["| value | default | |", "|---|---|---|"]
    for path, (default, text) in described().items():
        shown = json.dumps(default)
        code = f"`{shown}`" if len(shown) <= _LONGEST_DEFAULT else "see values.yaml"
        rows.append(f"| `{path}` | {code} | {text} |")
    return "\n".join(rows) + "\n"


def rendered() -> str:
    """Return the README with the table as it should be."""
    before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    return before + _BEGIN + "\n" + table() + "\n" + _END + rest.partition(_END)[2]


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where the file is out of date.")
def main(*, check: bool) -> None:
    """Write the table."""
    if not check:
        README.write_text(rendered(), encoding="utf-8")
    elif README.read_text(encoding="utf-8") != rendered():
        sys.exit(f"{README} is out of date: run python tools/generate_chart_readme.py")


if __name__ == "__main__":
    main()
