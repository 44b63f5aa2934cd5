"""Parses tokens into a syntax tree.

Source of the grammar: cel-go v0.29.2, parser/gen/CEL.g4 and parser/parser.go, with the optional syntax (``.?f``,
``[?i]``, ``[?e]``, ``{?k: v}``) that Kubernetes turns on. Macros are expanded while parsing, as there.
"""

from __future__ import annotations

from typing import Final

from driver.cel.errors import CelCompileError
from driver.cel.lexer import Token, tokenize, unescape, unescape_bytes
from driver.cel.macros import MacroError, expand
from driver.cel.nodes import (
    Call,
    Constant,
    Ident,
    ListNode,
    Literal,
    MapEntry,
    MapNode,
    Node,
    Select,
    Uint,
    children,
)

__all__ = ["MAX_DEPTH", "MAX_NODES", "parse"]

MAX_DEPTH: Final = 100
"""The deepest nesting of brackets and tree. Kubernetes allows 250; this keeps Python's stack shallow."""

MAX_NODES: Final = 50_000
"""The most nodes after expansion: optMap uses its target twice, so nested ones double each time."""

_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_NUMBERS: Final = ("int", "hex", "double")
_LONGEST_NUMBER: Final = 400  # more digits than any number in range has
# cel-go's parser.go, reservedIds; the keywords among them are tokens of their own here.
_RESERVED: Final = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()  # noqa: SIM905
)


def parse(expression: str) -> Node:
    """Return the tree of an expression.

    Raises:
        CelCompileError: The expression is not CEL, or nests deeper than :data:`MAX_DEPTH`.
    """
    return _Parser(expression).parse()


class _Parser:
    """A recursive descent parser; each method reads what its name says from the current token on."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = tokenize(expression)
        self._next = 0
        self._depth = 0

    def parse(self) -> Node:
        root = self._expr()
        if self._token.kind != "end":
            raise self._unexpected("an operator or the end")
        self._check_shape(root)
        return root

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _takes(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._next += 1
        return True

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            raise self._unexpected(kind if kind == "name" else repr(kind))
        return self._take()

    def _unexpected(self, wanted: str) -> CelCompileError:
        found = self._token.text if self._token.kind == "end" else repr(self._token.text)
        return self._error(f"Syntax error: found {found} where {wanted} was expected", self._token.offset)

    def _error(self, problem: str, offset: int) -> CelCompileError:
        return CelCompileError(problem, self._expression, offset=offset)

    def _too_deep(self, offset: int) -> CelCompileError:
        return self._error(f"nests deeper than {MAX_DEPTH} levels", offset)

    def _check_shape(self, root: Node) -> None:
        # Long chains of operators and selections are deep trees without being deep brackets.
        level: list[Node] = [root]
        for _ in range(MAX_DEPTH):
            level = list({id(child): child for node in level for child in children(node)}.values())
            if not level:
                break
        else:
            raise self._too_deep(level[0].offset)
        if _size(root, {}) > MAX_NODES:
            raise self._error(f"expands to more than {MAX_NODES} nodes", root.offset)

    def _expr(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._too_deep(self._token.offset)
        node = self._binary(1)
        if self._token.kind == "?":
            offset = self._take().offset
            if_true = self._binary(1)
            self._expect(":")
            node = Call(offset, "_?_:_", (node, if_true, self._expr()))
        self._depth -= 1
        return node

    def _binary(self, lowest: int) -> Node:
        """Read operators that bind at least as tightly as ``lowest``, all of them from left to right."""
        node = self._unary()
        while (level := _PRECEDENCE.get(self._token.kind, 0)) >= lowest:
            token = self._take()
            if level > 2:
                function = "@in" if token.kind == "in" else f"_{token.kind}_"
                node = Call(token.offset, function, (node, self._binary(level + 1)))
                continue
            terms, offsets = [node, self._binary(level + 1)], [token.offset]
            while self._token.kind == token.kind:
                offsets.append(self._take().offset)
                terms.append(self._binary(level + 1))
            node = _balanced(f"_{token.kind}_", terms, offsets)
        return node

    def _unary(self) -> Node:
        operator = self._token
        if operator.kind not in ("!", "-"):
            return self._member()
        count = 0
        while self._takes(operator.kind):
            count += 1
        if operator.kind == "-" and count == 1 and self._token.kind in _NUMBERS:
            return self._member(sign=operator)
        is_negative = self._token.kind == "-" and self._tokens[self._next + 1].kind in _NUMBERS
        operand = self._member(sign=self._take() if is_negative else None)
        return operand if count % 2 == 0 else Call(operator.offset, f"{operator.kind}_", (operand,))

    def _member(self, sign: Token | None = None) -> Node:
        node = self._number(sign) if sign else self._primary()
        while True:
            token = self._token
            if self._takes("."):
                node = self._selection(node, token.offset)
            elif self._takes("["):
                function = "_[?_]" if self._takes("?") else "_[_]"
                node = Call(token.offset, function, (node, self._expr()))
                self._expect("]")
            else:
                return node

    def _selection(self, operand: Node, offset: int) -> Node:
        is_optional = self._takes("?")
        name = self._token
        field = name.text.strip("`")
        if not self._takes("escaped"):
            self._expect("name")
            if self._token.kind == "(" and not is_optional:
                return self._call(field, operand)
        if is_optional:
            return Call(offset, "_?._", (operand, Literal(name.offset, field)))
        return Select(offset, operand, field)

    def _call(self, function: str, target: Node | None) -> Node:
        offset = self._expect("(").offset
        arguments: list[Node] = []
        if self._token.kind != ")":
            arguments.append(self._expr())
            while self._takes(","):
                arguments.append(self._expr())
        self._expect(")")
        call = Call(offset, function, tuple(arguments), target)
        try:
            return expand(call)
        except MacroError as error:
            raise self._error(str(error), error.offset) from None

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "name" | ".":
                return self._name()
            case "(":
                self._take()
                node = self._expr()
                self._expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "int" | "hex" | "double" | "uint":
                return self._number(None)
            case "string" | "bytes" | "true" | "false" | "null":
                return self._constant()
            case _:
                raise self._unexpected("an expression")

    def _name(self) -> Node:
        # A leading dot asks for the outermost name; a selector has no packages, so it changes nothing.
        self._takes(".")
        token = self._expect("name")
        if self._opens_message():
            raise self._error(f"messages such as {token.text}{{}} are not supported by Rootport yet", token.offset)
        if token.text in _RESERVED:
            raise self._error(f"reserved identifier: {token.text}", token.offset)
        if self._token.kind == "(":
            return self._call(token.text, None)
        return Ident(token.offset, token.text)

    def _opens_message(self) -> bool:
        index = self._next
        while self._tokens[index].kind == "." and self._tokens[index + 1].kind == "name":
            index += 2
        return self._tokens[index].kind == "{"

    def _list(self) -> Node:
        offset = self._take().offset
        elements: list[Node] = []
        optional: set[int] = set()
        while self._token.kind not in ("]", ","):
            if self._takes("?"):
                optional.add(len(elements))
            elements.append(self._expr())
            if self._token.kind != "," or self._tokens[self._next + 1].kind == "]":
                break
            self._take()
        self._takes(",")
        self._expect("]")
        return ListNode(offset, tuple(elements), frozenset(optional))

    def _map(self) -> Node:
        offset = self._take().offset
        entries: list[MapEntry] = []
        while self._token.kind not in ("}", ","):
            optional = self._takes("?")
            key = self._expr()
            self._expect(":")
            entries.append(MapEntry(key, self._expr(), optional))
            if self._token.kind != "," or self._tokens[self._next + 1].kind == "}":
                break
            self._take()
        self._takes(",")
        self._expect("}")
        return MapNode(offset, tuple(entries))

    def _number(self, sign: Token | None) -> Node:
        token = self._take()
        text = ("-" if sign else "") + token.text
        offset = sign.offset if sign else token.offset
        value: Constant
        if len(text) > _LONGEST_NUMBER:
            raise self._error("invalid number: too many digits", offset)
        if token.kind == "double":
            value = float(text)
            if value in (float("inf"), float("-inf")):
                raise self._error("invalid double literal", offset)
        elif token.kind == "uint":
            number = int(text[:-1], 16 if text.startswith("0x") else 10)
            if number >= 2**64:
                raise self._error("invalid uint literal", offset)
            value = Uint(number)
        else:
            value = int(text, 16 if token.kind == "hex" else 10)
            if not -(2**63) <= value < 2**63:
                raise self._error("invalid int literal", offset)
        return Literal(offset, value)

    def _constant(self) -> Node:
        token = self._take()
        value: Constant
        match token.kind:
            case "true" | "false":
                value = token.kind == "true"
            case "null":
                value = None
            case kind:
                try:
                    value = unescape(token.text) if kind == "string" else unescape_bytes(token.text[1:])
                except ValueError as error:
                    raise self._error(f"Syntax error: {error}", token.offset) from None
        return Literal(token.offset, value)


def _size(node: Node, known: dict[Node, int]) -> int:
    if node not in known:
        known[node] = 1 + sum(_size(child, known) for child in children(node))
    return known[node]


def _balanced(function: str, terms: list[Node], offsets: list[int]) -> Node:
    """Return ``a && b && c && …`` as a balanced tree (cel-go's parser/helper.go), so that it stays shallow."""
    if len(terms) == 1:
        return terms[0]
    middle = len(offsets) // 2
    left = _balanced(function, terms[: middle + 1], offsets[:middle])
    right = _balanced(function, terms[middle + 1 :], offsets[middle + 1 :])
    return Call(offsets[middle], function, (left, right))
