"""Splits the text of an expression into tokens.

Source of the rules: cel-go v0.29.2, parser/gen/CEL.g4 (lexer rules) and parser/unescape.go. cel-python's own lexer is
not used: its string pattern backtracks exponentially on an unclosed string full of backslashes, and it knows no
optional syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from driver.cel.errors import CelCompileError

__all__ = ["KEYWORDS", "Token", "tokenize", "unescape", "unescape_bytes"]

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
# Each alternative starts with characters of its own, so none of these patterns can backtrack far.
_STRING: Final = (
    r'(?:[rR]"""[\s\S]*?"""' + r"|[rR]'''[\s\S]*?'''"
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""' + rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    r'|[rR]"[^"\n\r]*"' + r"|[rR]'[^'\n\r]*'"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"' + rf"|'(?:{_ESCAPE}|[^\\'\n\r])*')"
)
_TOKEN: Final = re.compile(
    r"(?P<space>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB]{_STRING})"
    rf"|(?P<string>{_STRING})"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<int>[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<escaped>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<symbol>==|!=|<=|>=|&&|\|\||[-<>+*/%!?:.,()\[\]{}])"
)
_SIMPLE_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED: Final = re.compile(_ESCAPE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``kind`` is a group of the lexer (string, int, name …), or the symbol or keyword itself."""

    kind: str
    text: str
    offset: int


def tokenize(expression: str) -> list[Token]:
    """Return all tokens, the last one of kind ``end``.

    Raises:
        CelCompileError: A character belongs to no token, for example an unclosed string.
    """
    tokens: list[Token] = []
    offset = 0
    while offset < len(expression):
        match = _TOKEN.match(expression, offset)
        if match is None:
            unclosed = expression[offset] in "\"'"
            problem = "Syntax error: unclosed or malformed string" if unclosed else "Syntax error: unexpected character"
            raise CelCompileError(f"{problem} {expression[offset : offset + 12]!r}", expression, offset=offset)
        kind, text = str(match.lastgroup), match[0]
        if kind == "symbol" or text in KEYWORDS:
            kind = text
        if kind != "space":
            tokens.append(Token(kind, text, offset))
        offset = match.end()
    tokens.append(Token("end", "the end", offset))
    return tokens


def unescape(text: str) -> str:
    """Return the value of a string literal.

    Raises:
        ValueError: An escape names no Unicode character.
    """
    body, raw = _body(text)
    return body if raw else _ESCAPED.sub(lambda match: chr(_code_point(match[0])), body)


def unescape_bytes(text: str) -> bytes:
    """Return the value of a bytes literal (without its ``b``): escapes are bytes, all else is UTF-8.

    Raises:
        ValueError: An escape names a Unicode character, which bytes have none of.
    """
    body, raw = _body(text)
    if raw:
        return body.encode()
    value, start = b"", 0
    for match in _ESCAPED.finditer(body):
        if match[0][1] in "uU":
            raise ValueError("a Unicode escape in bytes")
        value += body[start : match.start()].encode() + bytes((_code_point(match[0]),))
        start = match.end()
    return value + body[start:].encode()


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    quoted = text[1:] if raw else text
    triple = len(quoted) >= 6 and quoted[:3] in ('"""', "'''")
    return (quoted[3:-3] if triple else quoted[1:-1]), raw


def _code_point(escape: str) -> int:
    code = escape[1:]
    if code[0] in "xXuU":
        point = int(code[1:], 16)
    elif code[0] in "0123":
        point = int(code, 8)
    else:
        point = ord(_SIMPLE_ESCAPES.get(code, code))
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("an escape that names no Unicode character")
    return point
