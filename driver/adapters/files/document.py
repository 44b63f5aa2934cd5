"""An object of a YAML or JSON file with its lines, and the problems that such a file can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import yaml

from driver.api.validation.errors import shown
from driver.errors import InputError

__all__ = ["Document", "Problem", "ProblemKind", "Report", "field_path", "printable", "refuse"]

_MAX_PATH: Final = 500
_PLAIN_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAPS: Final = frozenset({("capacity", "requests"), ("metadata", "labels"), ("metadata", "annotations")})
"""Objects whose field names are data; Kubernetes writes those in brackets: ``capacity.requests[core]``."""

_Fields: TypeAlias = dict[Any, tuple[yaml.Node, yaml.Node]]


class ProblemKind(StrEnum):
    """What is wrong with a file or an object in it. Each is also a code of the linter."""

    UNREADABLE = "unreadable"
    NOT_AN_OBJECT = "not-an-object"
    OLD_VERSION = "old-version"
    INVALID_OBJECT = "invalid-object"
    DUPLICATE_OBJECT = "duplicate-object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a file, or an object in it, cannot be used, and where that is.

    Attributes:
        kind: What is wrong.
        source: The file's name.
        message: What is wrong, in words.
        line: The line, from 1; None if the problem is the file as a whole.
        item: The object's place in a ``List``, such as ``items[0]: ``; None if the problem is no object's.
        object_kind: The object's kind; empty if it has none.
        name: The object's name; empty if it has none.
        path: The field at fault.
        hint: What to do next.
        is_harmless: Whether the API server would accept the object.
    """

    kind: ProblemKind
    source: str
    message: str
    line: int | None = None
    item: str | None = None
    object_kind: str = ""
    name: str = ""
    path: str = ""
    hint: str = ""
    is_harmless: bool = False

    def __str__(self) -> str:
        """``file:line: Kind name: field.path: message (hint)``."""
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        subject = "" if self.item is None else self.item + (f"{self.object_kind} {self.name}".strip() or "object")
        parts = (where, subject, self.path, self.message)
        text = ": ".join(part for part in parts if part)
        return f"{text} ({self.hint})" if self.hint else text


Report: TypeAlias = Callable[[Problem], None]
"""Called for each problem of a file. If it raises, nothing more is read."""


def refuse(problem: Problem) -> None:
    """Raise the problem as an error: the report function for files that must be valid as a whole.

    Raises:
        InputError: Always.
    """
    raise InputError(str(problem))


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a file: its data, and the YAML nodes that know the lines.

    Attributes:
        source: The file's name, for messages.
        node: The object's YAML node.
        data: The object as plain data.
        prefix: The object's place in a ``List``, for messages.
    """

    source: str
    node: yaml.MappingNode
    data: dict[str, Any]
    prefix: str = ""
    _fields: dict[int, _Fields] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def where(self) -> str:
        """The start of the object as ``file:line``."""
        return f"{self.source}:{self.node.start_mark.line + 1}"

    @property
    def kind(self) -> str:
        """The object's kind; empty if it has none."""
        kind = self.data.get("kind")
        return kind if isinstance(kind, str) else ""

    def items(self, item_kinds: Mapping[tuple[str, str], str], report: Report = refuse) -> Iterator[Document]:
        """Yield the object itself, or the items of a ``List``, also of nested lists.

        Args:
            item_kinds: The kind of the items, by apiVersion and kind of their list, for items that do not name it
                (the API server leaves kind and apiVersion out of them).
            report: Called for items that are no objects.
        """
        version = self.data.get("apiVersion")
        item_kind = item_kinds.get((version, self.kind)) if isinstance(version, str) else None
        if self.kind != "List" and item_kind is None:
            yield self
            return
        written = self.data.get("items")
        if written is None:
            return
        pair = self._pair(self.node, "items")
        if not isinstance(written, list) or pair is None:
            report(self.problem(("items",), "expected a list of objects"))
            return
        implied = {"apiVersion": version, "kind": item_kind} if item_kind else {}
        for index, (node, data) in enumerate(zip(pair[1].value, written, strict=True)):
            if not isinstance(data, dict):
                report(self.problem(("items", index), "expected an object"))
                continue
            item = Document(self.source, node, implied | data, prefix=f"{self.prefix}items[{index}]: ")
            yield from item.items(item_kinds, report)

    @property
    def name(self) -> str:
        """The object's name; empty if it has none."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def namespace(self) -> str:
        """The object's namespace; empty if it names none."""
        metadata = self.data.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        return namespace if isinstance(namespace, str) else ""

    def problem(
        self,
        loc: Sequence[str | int],
        message: str,
        *,
        path: str | None = None,
        kind: ProblemKind = ProblemKind.INVALID_OBJECT,
        hint: str = "",
    ) -> Problem:
        """Return a problem with a field of this object.

        Args:
            loc: The steps that lead to the field.
            message: What is wrong with it.
            path: The field as messages show it; by default it is made from ``loc``.
            kind: What is wrong.
            hint: What to do next.
        """
        return Problem(
            kind=kind,
            source=self.source,
            message=message,
            line=self.line(loc),
            item=self.prefix,
            object_kind=printable(self.kind[:80]),
            name=printable(self.name[:80]),
            path=field_path(loc) if path is None else path,
            hint=hint,
        )

    def error(self, loc: Sequence[str | int], message: str) -> str:
        """Return a problem with a field of this object as a line of text."""
        return str(self.problem(loc, message))

    def line(self, loc: Sequence[str | int]) -> int:
        """Return the line of a field, or of the nearest enclosing one that was written."""
        node: Any = self.node
        line = node.start_mark.line
        for step in loc:
            if isinstance(node, yaml.MappingNode):
                pair = self._pair(node, step)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line
            else:
                break
        return int(line) + 1

    def _pair(self, node: yaml.MappingNode, name: str | int) -> tuple[yaml.Node, yaml.Node] | None:
        """Return a field of a mapping that was constructed: PyYAML then has merged fields (``<<``) before its own."""
        if id(node) not in self._fields:
            self._fields[id(node)] = {key.value: (key, value) for key, value in node.value}
        return self._fields[id(node)].get(name)


def field_path(loc: Sequence[str | int]) -> str:
    """Return a field as Kubernetes writes it; names that are data, or not plain, in brackets."""
    path = ""
    for index, step in enumerate(loc):
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_FIELD.fullmatch(step) and tuple(loc[index - 2 : index]) not in _MAPS:
            path += f".{step}"
        else:
            path += f"[{printable(step)}]"
    path = path.lstrip(".")
    return path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}..."


def printable(text: str) -> str:
    """Return a text for a message, escaped if it holds what a terminal would act on."""
    return text if text.isprintable() else shown(text)
