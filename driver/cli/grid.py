"""Prints tables whose names stay whole: a narrow terminal gets fewer columns, and a line that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

__all__ = ["print_grid"]

_GAP: Final = 2


def print_grid(
    screen: Console, titles: Sequence[str], rows: Sequence[Sequence[str | Text]], *, optional: Sequence[str] = ()
) -> None:
    """Print a table as kubectl does: no frame, columns as wide as their texts.

    Args:
        screen: Where to; its width decides.
        titles: The headings.
        rows: The cells.
        optional: Which columns may be left out, the first one first; a line says which were. Where that is not enough,
            the first column's texts get lines of their own.
    """
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(len(title), *(len(row[at]) for row in cells), 0) for at, title in enumerate(titles)]
    shown = list(range(len(titles)))
    left_out: list[str] = []
    for title in optional:
        if _width(widths, shown) <= screen.width:
            break
        if title in titles:
            shown.remove(titles.index(title))
            left_out.append(title)
    stacked = _width(widths, shown) > screen.width and len(shown) > 1
    for row in [[Text(title, style="bold") for title in titles], *cells]:
        first, *rest = shown
        if stacked and row[first]:
            screen.print(row[first], soft_wrap=True)
        line = Text(" " * _GAP) if stacked else Text()
        for at in rest if stacked else shown:
            line.append_text(row[at]).append(" " * (widths[at] - len(row[at]) + _GAP))
        line.rstrip()
        screen.print(line, soft_wrap=True)
    if left_out:
        note = f"no room at {screen.width} columns for: {', '.join(left_out)}"
        screen.print(note, style="dim", soft_wrap=True)


def _width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + _GAP * (len(shown) - 1)
