"""Reads CSV files, compressed or not, by the names of their columns, within bounds of size and rows."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from driver.adapters.files.input_file import open_input, path_name, read_all, unreadable
from driver.errors import InputError
from driver.wording import listed, short

__all__ = ["Row", "csv_rows"]

_MOST_BYTES: Final = 64 << 20
_MOST_COLUMNS: Final = 1000
_EMPTY: Final = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>"})
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_MOST: Final = 10.0**15


@dataclass(frozen=True, slots=True)
class Row:
    """A row: texts by the names of their columns.

    Attributes:
        source: The file, for messages.
        line: Its number.
        columns: Name of a column, in small letters → its index.
        cells: The texts.
    """

    source: str
    line: int
    columns: Mapping[str, int]
    cells: Sequence[str]

    def text(self, *names: str) -> str | None:
        """Return the text in the first of these columns that the file has, "" for words that stand for nothing.

        None if the file has none of the columns.
        """
        for name in names:
            at = self.columns.get(name)
            if at is not None:
                text = self.cells[at].strip()
                return "" if text.lower() in _EMPTY else text
        return None

    def number(self, *names: str) -> float | None:
        """Return the number in the first of these columns that the file has; None where nothing is in it.

        Raises:
            InputError: The text is no number, or the number is negative or larger than anything can be.
        """
        text = self.text(*names)
        if not text:
            return None
        number = _number(text)
        if number is None:
            raise self.error(names, f"{short(text, 40)!r} is not a number from 0 to 1e15")
        return number

    def error(self, names: Sequence[str], message: str) -> InputError:
        """Return an error that names the file, the line and the first of these columns that the file has."""
        column = next((name for name in names if name in self.columns), names[0])
        return InputError(f"{self.source}:{self.line}: {column}: {message}")


@lru_cache(maxsize=10_000)
def _number(text: str) -> float | None:
    """Return a number that is not negative, and not larger than anything can be."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if 0 <= number <= _MOST else None


def csv_rows(path: Path, what: str, *, needs: Sequence[Sequence[str]], most_rows: int) -> Iterator[Row]:
    """Yield the rows of a CSV file whose first line has the names of its columns.

    Empty lines are passed over, and a name that ends in ``.gz`` means a compressed file.

    Args:
        path: The file.
        what: What it should be, with its article, for messages.
        needs: Columns that it must have; of each entry one.
        most_rows: The most rows that are read.

    Raises:
        InputError: The file cannot be read, is larger than 64 MiB, is no CSV in UTF-8, or lacks a column.
    """
    name = path_name(path)
    lines = io.TextIOWrapper(io.BytesIO(_content(path, what)), encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, strict=True)
    try:
        columns = [column.strip().lower() for column in next(reader, [])]
        _check_columns(columns, needs, name, what)
        places = {column: at for at, column in enumerate(columns)}
        rows = 0
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            rows += 1
            if rows > most_rows:
                raise InputError(
                    f"{name}:{reader.line_num}: more than {most_rows:,} rows, the most that are read of {what}"
                )
            if len(cells) != len(columns):
                count = f"{len(cells)} columns, where the first line names {len(columns)}"
                raise InputError(f"{name}:{reader.line_num}: {count}")
            yield Row(name, reader.line_num, places, cells)
    except csv.Error as error:
        raise InputError(f"{name}:{reader.line_num}: is not CSV: {error}", hint=f"name {what}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 text: {error.reason}", hint=f"name {what}") from error


def _content(path: Path, what: str) -> bytes:
    name = path_name(path)
    try:
        with open_input(path, what) as file:
            if path.suffix != ".gz":
                return read_all(file, name, _MOST_BYTES, what)
            with gzip.GzipFile(fileobj=file) as unpacked:
                content = unpacked.read(_MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: is not compressed by gzip, or not whole: {error}", hint=f"name {what}") from error
    except OSError as error:
        raise unreadable(path, error, what) from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"{name}: larger than {_MOST_BYTES >> 20} MiB unpacked, the most that is read of {what}")
    return content


def _check_columns(columns: Sequence[str], needs: Sequence[Sequence[str]], name: str, what: str) -> None:
    if len(columns) > _MOST_COLUMNS:
        raise InputError(f"{name}:1: more than {_MOST_COLUMNS} columns", hint=f"name {what}")
    missing = [names[0] for names in needs if not set(names) & set(columns)]
    if missing:
        have = listed([short(column, 40) or '""' for column in columns], shown=20) or "none"
        raise InputError(f"{name}:1: no column {listed(missing)}; there are: {have}", hint=f"name {what}")
    double = sorted({column for column in columns if columns.count(column) > 1 and column})
    if double:
        raise InputError(f"{name}:1: the column {short(double[0], 40)} is there twice")
