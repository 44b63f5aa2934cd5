"""Rewrites selectors that were written for another driver's devices.

The text is rewritten by its tokens: each path that reads the device is replaced as a whole, and what an expression does
in any other way with the device is refused. Nothing else of the text changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from driver import DRIVER_NAME
from driver.cel import CelCompileError, compile_selector
from driver.cel.lexer import Token, tokenize, unescape
from driver.convert.other_drivers.names import DOMAINS, Equal, Part

__all__ = ["NeverError", "Rewritten", "UntranslatableError", "rewrite"]

EqualOf: TypeAlias = Callable[[Part, str], Equal]

_MAX_LENGTH: Final = 10 * 1024
"""Bytes; the API server's own limit (resource.k8s.io/v1, CELSelectorExpressionMaxLength)."""

_PARTS: Final[dict[str, Part]] = {"attributes": "attributes", "capacity": "capacity"}
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_BEFORE_A_TERM: Final = frozenset({"(", "[", "&&", "||", "?", ":", ","})
_TRUE: Final = frozenset({"true", "true==true", "false==false", "true!=false", "false!=true", "!false"})
_FALSE: Final = frozenset({"false", "true==false", "false==true", "true!=true", "false!=false", "!true"})


class UntranslatableError(ValueError):
    """The expression reads something that has no equal, or reads the device in a way that is not known."""


class NeverError(ValueError):
    """No device of the class can match the expression."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A selector for Rootport's devices.

    Attributes:
        expression: The expression; empty where the class selects all that it asked for.
        notes: What is different, each once.
    """

    expression: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    is_optional: bool
    after: int  # the index of the token behind it


def rewrite(expression: str, equal_of: EqualOf) -> Rewritten:
    """Return the expression for Rootport's devices.

    Args:
        expression: The expression; anybody may have written it.
        equal_of: Returns what stands for an attribute or capacity, by its full name.

    Raises:
        UntranslatableError: It is not a selector, or cannot be rewritten; the message names what it reads.
        NeverError: It can match no device of the class; the message names the term.
    """
    if len(expression.encode()) > _MAX_LENGTH:
        raise UntranslatableError(f"has more than {_MAX_LENGTH} bytes, which is the API server's limit")
    try:
        compile_selector(expression)
        writer = _Writer(expression, equal_of)
        terms = [writer.term(tokens) for tokens in _terms(tokenize(expression)[:-1])]
        kept = [*writer.guards(), *(text for text in terms if text)]
        result = expression if kept == [expression.strip()] else " && ".join(kept)
        if result:
            compile_selector(result)
    except CelCompileError as error:
        raise UntranslatableError(f"is not a selector: {error}") from None
    return Rewritten(result, tuple(dict.fromkeys(writer.notes)))


def _terms(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the terms that must all hold; the whole expression where ``||`` or ``?:`` stand beside them."""
    depth, start = 0, 0
    ends: list[int] = []
    for index, token in enumerate(tokens):
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0 and token.kind in ("||", "?") and not _is_optional_mark(tokens, index):
            yield tokens
            return
        if depth == 0 and token.kind == "&&":
            ends.append(index)
    for end in (*ends, len(tokens)):
        yield tokens[start:end]
        start = end + 1


def _is_optional_mark(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].kind == "?" and index > 0 and tokens[index - 1].kind in (".", "[", ",", "{")


class _Writer:
    """Rewrites one term after the other."""

    def __init__(self, expression: str, equal_of: EqualOf) -> None:
        self._expression = expression
        self._equal_of = equal_of
        self._read_names: dict[str, Part] = {}
        self._asked_for: set[str] = set()
        self.notes: list[str] = []

    def guards(self) -> Iterator[str]:
        """Yield terms that are false where a device lacks what others read, which would be an error otherwise.

        An error keeps the pod from every node. Nothing is to be asked where an alternative may make up for it.
        """
        for name, part in self._read_names.items():
            if name not in self._asked_for:
                domain, _, identifier = name.partition("/")
                yield f'"{identifier}" in device.{part}["{domain}"]'

    def term(self, tokens: Sequence[Token]) -> str:
        """Return the term rewritten; empty if it holds for every device of the class."""
        start, end = tokens[0].offset, _end(tokens[-1])
        text, place = "", start
        for edit in self._edits(tokens):
            text += self._expression[place : edit.start] + edit.text
            place = edit.end
        text += self._expression[place:end]
        constant = _constant(text)
        if constant is False:
            raise NeverError(f"{' '.join(self._expression[start:end].split())} holds for no device of the class")
        return "" if constant else text

    def _edits(self, tokens: Sequence[Token]) -> Iterator[_Edit]:
        index = 0
        while index < len(tokens):
            if not _is_device(tokens, index):
                index += 1
                continue
            edit, index = self._path(tokens, index)
            if edit is not None:
                yield edit

    def _path(self, tokens: Sequence[Token], first: int) -> tuple[_Edit | None, int]:
        """Return the edit of the path that starts at a token, and the index of the token behind it."""
        part = _kind_text(tokens, first + 2) if _kind(tokens, first + 1) == "." else ""
        if part == "driver":
            return self._driver(tokens, first)
        if part == "allowMultipleAllocations":
            return None, first + 3
        if part not in _PARTS:
            raise UntranslatableError(f"reads the device as a whole at character {tokens[first].offset + 1}")
        domain = _step(tokens, first + 3)
        if domain is None:
            raise UntranslatableError(f"reads device.{part} as a whole, not one name of a domain")
        name = _step(tokens, domain.after)
        if name is not None:
            return self._read(tokens, first, _PARTS[part], domain, name)
        if _kind(tokens, first - 1) == "in":
            return self._in(tokens, first, _PARTS[part], domain)
        raise UntranslatableError(f'reads device.{part}["{domain.name}"] as a whole: name what it reads of it')

    def _read(
        self, tokens: Sequence[Token], first: int, part: Part, domain: _Step, name: _Step
    ) -> tuple[_Edit | None, int]:
        equal = self._equal(part, domain.name, name.name)
        start, end = tokens[first].offset, _end(tokens[name.after - 1])
        is_optional = domain.is_optional or name.is_optional
        is_has = _kind_text(tokens, first - 2) == "has" and _kind(tokens, first - 1) == "("
        if equal.constant is not None:
            text = "true" if equal.constant else "false"
            if is_has and _kind(tokens, name.after) == ")":
                return _Edit(tokens[first - 2].offset, _end(tokens[name.after]), "true"), name.after + 1
            return _Edit(start, end, f"optional.of({text})" if is_optional else text), name.after
        path = _written(part, equal.name, domain_mark=domain.is_optional, mark=name.is_optional)
        if is_has:
            self._asked_for.add(equal.name)
        elif equal.may_be_absent and not is_optional and not _has_alternatives(tokens):
            self._read_names[equal.name] = part
        if equal.values and not is_has:
            if is_optional:
                raise UntranslatableError(f"reads {domain.name}/{name.name} as an optional value: compare it with ==")
            path = _mapped(path, equal)
        if equal.name == f"{domain.name}/{name.name}":
            return None, name.after
        return _Edit(start, end, path), name.after

    def _in(self, tokens: Sequence[Token], first: int, part: Part, domain: _Step) -> tuple[_Edit | None, int]:
        """Return the edit of ``"name" in device.attributes["domain"]``; it starts before the path."""
        literal = tokens[first - 2] if first >= 2 else None
        before = _kind(tokens, first - 3)
        if literal is None or literal.kind != "string" or (before and before not in _BEFORE_A_TERM):
            raise UntranslatableError(f'looks for a name in device.{part}["{domain.name}"] that is no plain text')
        name = unescape(literal.text)
        equal = self._equal(part, domain.name, name)
        end = _end(tokens[domain.after - 1])
        if equal.constant is not None:
            return _Edit(literal.offset, end, "true"), domain.after
        if equal.name == f"{domain.name}/{name}":
            return None, domain.after  # one of Rootport's own already
        self._asked_for.add(equal.name)
        our_domain, _, ours = equal.name.partition("/")
        return _Edit(literal.offset, end, f'"{ours}" in device.{part}["{our_domain}"]'), domain.after

    def _driver(self, tokens: Sequence[Token], first: int) -> tuple[_Edit | None, int]:
        after = first + 3
        operators = ("==", "!=")
        if _kind(tokens, after) in operators and _kind(tokens, after + 1) == "string":
            literal, following = tokens[after + 1], after + 2
        elif _kind(tokens, first - 1) in operators and _kind(tokens, first - 2) == "string":
            literal, following = tokens[first - 2], after
        else:
            raise UntranslatableError("reads device.driver in another way than by == and a name")
        name = unescape(literal.text)
        if name not in DOMAINS:
            return None, following
        text = self._expression[literal.offset : _end(tokens[after - 1])]
        if literal.offset < tokens[first].offset:
            edited = text.replace(literal.text, f'"{DRIVER_NAME}"', 1)
            return _Edit(literal.offset, _end(tokens[after - 1]), edited), following
        return _Edit(literal.offset, _end(literal), f'"{DRIVER_NAME}"'), following

    def _equal(self, part: Part, domain: str, name: str) -> Equal:
        equal = self._equal_of(part, f"{domain}/{name}")
        if equal.refused:
            kind = "capacity" if part == "capacity" else "attribute"
            raise UntranslatableError(f"reads the {kind} {domain}/{name}: {equal.refused}")
        if equal.note:
            self.notes.append(f"{domain}/{name}: {equal.note}")
        return equal


def _step(tokens: Sequence[Token], index: int) -> _Step | None:
    """Return the selection (``.name``) or the index (``["name"]``) that starts at a token; None where none does."""
    opening = _kind(tokens, index)
    if opening not in (".", "["):
        return None
    is_optional = _kind(tokens, index + 1) == "?"
    place = index + 1 + is_optional
    kind = _kind(tokens, place)
    if opening == "[":
        if kind != "string" or _kind(tokens, place + 1) != "]":
            return None
        return _Step(unescape(tokens[place].text), is_optional, place + 2)
    if kind not in ("name", "escaped") or _kind(tokens, place + 1) == "(":
        return None
    return _Step(tokens[place].text.strip("`"), is_optional, place + 1)


def _is_device(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token is the variable ``device``; a field of that name is not."""
    if tokens[index].kind != "name" or tokens[index].text != "device":
        return False
    if _kind(tokens, index - 1) in (".", "?"):
        before = _kind(tokens, index - 2)
        is_field = before in ("name", "escaped", "string", ")", "]", "}", ".")
        return not (is_field and (_kind(tokens, index - 1) == "." or before == "."))
    return True


def _has_alternatives(tokens: Sequence[Token]) -> bool:
    """Whether a term may hold although a part of it is an error: CEL's ``&&`` and ``||`` absorb the errors of a side.

    An ``&&`` in a term stands in brackets, where a ``!`` may turn its false into true.
    """
    return any(
        token.kind in ("&&", "||", "?") and not _is_optional_mark(tokens, index) for index, token in enumerate(tokens)
    )


def _kind(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].kind if 0 <= index < len(tokens) else ""


def _kind_text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if _kind(tokens, index) == "name" else ""


def _end(token: Token) -> int:
    return token.offset + len(token.text)


def _written(part: Part, name: str, *, domain_mark: bool, mark: bool) -> str:
    domain, _, identifier = name.partition("/")
    return f'device.{part}[{"?" if domain_mark else ""}"{domain}"].{"?" if mark else ""}{identifier}'


def _mapped(path: str, equal: Equal) -> str:
    """Return an expression with the other driver's value; the last of its values where it is none of the others."""
    (*others, (last, _)) = equal.values.items()
    choices = "".join(f'{path} == "{ours}" ? "{theirs}" : ' for theirs, ours in others)
    return f'({choices}"{last}")'


def _constant(text: str) -> bool | None:
    """Return the value of a term that does not depend on the device; None where it may."""
    texts = [token.text for token in tokenize(text)[:-1]]
    while len(texts) > 2 and texts[0] == "(" and texts[-1] == ")" and "(" not in texts[1:-1]:
        texts = texts[1:-1]
    joined = "".join(texts)
    return True if joined in _TRUE else False if joined in _FALSE else None
