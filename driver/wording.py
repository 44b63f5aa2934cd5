"""How messages write counts, lists and long texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["listed", "plural", "short"]

_SHOWN: Final = 3
_LONGEST: Final = 160


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 device`` or ``2 devices``.

    Args:
        count: How many.
        one: The noun in the singular.
        many: Its plural, if it is not made by an ``s``.
    """
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def listed(texts: Sequence[str], *, shown: int = _SHOWN, what: str = "more", separator: str = ", ") -> str:
    """Return ``a, b, c and 4 more``; ``a, b and c`` where all are shown.

    Args:
        texts: All of them.
        shown: How many to write out before the rest is only counted.
        what: What the rest is called.
        separator: Stands between two of them.
    """
    if len(texts) > shown:
        return f"{separator.join(texts[:shown])} and {len(texts) - shown} {what}"
    return f"{separator.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def short(text: str, longest: int = _LONGEST) -> str:
    """Return the text on one line, cut to ``longest`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
