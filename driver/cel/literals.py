"""Writes texts of others into expressions: quoted and escaped, so that they stay texts whatever they hold."""

from __future__ import annotations

import json
from typing import Final

__all__ = ["text_literal"]

_SURROGATES: Final = range(0xD800, 0xE000)


def text_literal(text: str) -> str:
    """Return a CEL string literal of a text.

    JSON's escapes are CEL's as well (cel-spec, doc/langdef.md, "String and Bytes Values"), save for surrogates.

    Raises:
        ValueError: The text has a lone surrogate, which no literal can say.
    """
    if any(ord(character) in _SURROGATES for character in text):
        raise ValueError("a text with a lone surrogate has no CEL literal")
    return json.dumps(text, ensure_ascii=False)
