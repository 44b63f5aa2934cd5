"""Lays out tables of thousands of rows for a terminal: rich takes a second for each five hundred."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import click

__all__ = ["Cell", "Columns"]

_GAP: Final = "  "
_LEAST: Final = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and how it looks; what a terminal would act on is taken out of it."""

    text: str
    colour: str | None = None
    is_bold: bool = False


class Columns:
    """Lays out rows. Only the flexible columns are ever folded, and headings where that is not enough.

    Args:
        titles: The headings.
        rows: All rows, so that the columns are wide enough for each.
        flexible: Which columns share what is left of the width.
        left: The columns that stand on the left of their width; the others hold figures.
        width: Of the terminal.
    """

    def __init__(
        self,
        titles: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *,
        flexible: Sequence[int],
        left: Sequence[int],
        width: int,
    ) -> None:
        self._titles = titles
        self._left = {*flexible, *left}
        cells = [max((len(row[at].text) for row in rows), default=0) for at in range(len(titles))]
        self._widths = [max(len(title), cell) for title, cell in zip(titles, cells, strict=True)]
        if sum(self._widths) + len(_GAP) * (len(titles) - 1) <= width:
            return
        rest = [at for at in range(len(titles)) if at not in flexible]
        for at in rest:
            self._widths[at] = max(cells[at], *(len(word) for word in titles[at].split()))
        left_over = width - sum(self._widths[at] for at in rest) - len(_GAP) * (len(titles) - 1)
        # The narrowest first: what it does not need is the others'.
        for number, at in enumerate(sorted(flexible, key=lambda at: self._widths[at])):
            self._widths[at] = min(self._widths[at], max(left_over // (len(flexible) - number), _LEAST))
            left_over -= self._widths[at]

    def heading(self) -> Iterator[str]:
        """Return the headings, in one line or two."""
        yield from self.row([Cell(title, is_bold=True) for title in self._titles])

    def row(self, cells: Sequence[Cell]) -> Iterator[str]:
        """Return one row, in as many lines as the flexible column needs."""
        folded = [
            textwrap.wrap(cell.text, max(width, 1), break_on_hyphens=False) or [""]
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        for texts in zip_longest(*folded, fillvalue=""):
            yield _GAP.join(self._styled(at, text, cells[at]) for at, text in enumerate(texts)).rstrip()

    def _styled(self, at: int, text: str, cell: Cell) -> str:
        width = self._widths[at]
        shown = "".join(char if char.isprintable() else "?" for char in text)
        styled = (
            click.style(shown, fg=cell.colour, bold=cell.is_bold) if shown and (cell.colour or cell.is_bold) else shown
        )
        blanks = " " * (width - len(shown))
        return styled + blanks if at in self._left else blanks + styled
