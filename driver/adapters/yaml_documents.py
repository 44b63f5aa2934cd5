"""Reads YAML (and JSON, which is YAML) from untrusted files into plain data that remembers its lines.

Size, depth and expansion are bounded before anything is built: a 10,000-deep nesting, an alias bomb or a cyclic alias
is one error with its line. Duplicate fields are errors, as for ``kubectl apply --validate=strict``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from driver.api.validation.errors import shown
from driver.errors import InputError

__all__ = ["Document", "printable", "read_documents"]

_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 200_000
_TAG: Final = "tag:yaml.org,2002:"
_KEY_TAGS: Final = frozenset({_TAG + "str", _TAG + "merge"})
_VALUE_TAGS: Final = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))
"""What JSON has, and so what an object of Kubernetes can hold."""

_MAX_INTEGER_BITS: Final = 64

_LoaderBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LoaderBase):  # type: ignore[misc] # chosen at run time: libyaml's parser where it is built in
    """PyYAML's safe loader without timestamps: in a Kubernetes manifest ``2026-01-01`` is a string, and so is ``=``.

    PyYAML's constructors let Python's own errors through where a scalar is not what its tag says (``!!bool foo``,
    ``0b_``, a number of 5,000 digits); here they are errors with a line.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        try:
            data = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise _wrong_scalar(node) from error
        if isinstance(data, int) and data.bit_length() > _MAX_INTEGER_BITS:
            raise _wrong_scalar(node)
        return data


def _wrong_scalar(node: yaml.Node) -> yaml.MarkedYAMLError:
    kind = node.tag.removeprefix(_TAG)
    return yaml.constructor.ConstructorError(
        problem=f"{shown(str(node.value))} cannot be read as {kind}", problem_mark=node.start_mark
    )


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TAG + "timestamp", _TAG + "value")]
    for first, resolvers in _LoaderBase.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file: its data, and the YAML nodes that know the lines.

    Attributes:
        source: The file's name, for messages.
        node: The object's YAML node.
        data: The same as plain data.
        prefix: Where the object stands in a ``List``, for messages.
    """

    source: str
    node: yaml.MappingNode
    data: dict[str, Any]
    prefix: str = ""

    @property
    def where(self) -> str:
        """``file:line`` of the object's start."""
        return f"{self.source}:{self.node.start_mark.line + 1}"

    @property
    def kind(self) -> str:
        """The object's kind; empty where it has none."""
        kind = self.data.get("kind")
        return kind if isinstance(kind, str) else ""

    def items(self, item_kinds: Mapping[tuple[str, str], str]) -> Iterator[Document]:
        """The object itself, or what a ``List`` holds, also in lists within.

        Args:
            item_kinds: By apiVersion and kind of a list of one kind: what its items are, where they do not say so
                (the API server leaves kind and apiVersion out of them).

        Raises:
            InputError: The list holds something else than objects.
        """
        version = self.data.get("apiVersion")
        item_kind = item_kinds.get((version, self.kind)) if isinstance(version, str) else None
        if self.kind != "List" and item_kind is None:
            yield self
            return
        written = self.data.get("items")
        if written is None:
            return
        pair = _pair(self.node, "items")
        if not isinstance(written, list) or pair is None:
            raise InputError(self.error(("items",), "expected a list of objects"))
        implied = {"apiVersion": version, "kind": item_kind} if item_kind else {}
        for index, (node, data) in enumerate(zip(pair[1].value, written, strict=True)):
            if not isinstance(data, dict):
                raise InputError(self.error(("items", index), "expected an object"))
            item = Document(self.source, node, implied | data, prefix=f"{self.prefix}items[{index}]: ")
            yield from item.items(item_kinds)

    def error(self, loc: Sequence[str | int], message: str) -> str:
        """``file:line: Kind name: field.path: message``."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        subject = " ".join(printable(part[:80]) for part in (self.kind, name) if isinstance(part, str) and part)
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in loc).lstrip(".")
        parts = (f"{self.source}:{self.line(loc)}", self.prefix + (subject or "object"), path, message)
        return ": ".join(part for part in parts if part)

    def line(self, loc: Sequence[str | int]) -> int:
        """The line of a field, or of the nearest thing around it that was written."""
        node: Any = self.node
        line = node.start_mark.line
        for step in loc:
            if isinstance(node, yaml.MappingNode):
                pair = _pair(node, step)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line
            else:
                break
        return int(line) + 1


def printable(text: str) -> str:
    """A text for a message: as it is, or escaped where it holds what a terminal would act on."""
    return text if text.isprintable() else shown(text)


def _pair(node: yaml.MappingNode, name: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """A field of a mapping that was constructed: PyYAML then has what ``<<`` merges in before the mapping's own."""
    return next(((key, value) for key, value in reversed(node.value) if key.value == name), None)


def read_documents(text: str, source: str) -> Iterator[Document]:
    """The documents of a YAML stream, empty ones left out.

    Args:
        text: The stream.
        source: Its name in messages.

    Raises:
        InputError: The text is no YAML, is nested or expands beyond bounds, repeats a field, or holds something else
            than mappings; names the line.
    """
    try:
        _check_depth(text, source)
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                _check_node(node, source)
                data = loader.construct_document(node)
                if data is None:
                    continue
                if not isinstance(node, yaml.MappingNode) or not isinstance(data, dict):
                    raise InputError(f"{source}:{node.start_mark.line + 1}: expected a Kubernetes object (a mapping)")
                yield Document(source, node, data)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = error.problem or error.context or "malformed"
        raise InputError(f"{where}: not valid YAML: {printable(problem)}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{source}:{line}: not valid YAML: {error.reason}") from error


def _check_depth(text: str, source: str) -> None:
    """Bound nesting and size on the flat stream of events, before the composer recurses into it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH or count > 2 * _MAX_NODES:
            what = (
                f"nested deeper than {_MAX_DEPTH} levels" if depth > _MAX_DEPTH else f"more than {2 * _MAX_NODES} items"
            )
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise InputError(f"{source}:{line}: {what}", hint="no Kubernetes object is like that")


def _check_node(root: yaml.Node, source: str) -> None:
    """Refuse duplicate keys, keys that are no strings, cyclic aliases, and aliases that multiply (a YAML bomb)."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            if known == 0:
                raise InputError(f"{source}:{node.start_mark.line + 1}: an alias refers to what it is part of")
            return known
        sizes[id(node)] = 0
        if node.tag not in _VALUE_TAGS:
            where = f"{source}:{node.start_mark.line + 1}"
            raise InputError(f"{where}: not valid YAML for Kubernetes: the tag {shown(node.tag)} has no JSON type")
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(size(child) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                line = f"{source}:{key.start_mark.line + 1}"
                if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEY_TAGS:
                    raise InputError(f"{line}: a field's name must be a string")
                if key.value in seen:
                    raise InputError(f"{line}: the field {key.value[:80]!r} is there twice")
                seen.add(key.value)
                total += size(value)
        if total > _MAX_NODES:
            raise InputError(f"{source}:{node.start_mark.line + 1}: expands to more than {_MAX_NODES} items")
        sizes[id(node)] = total
        return total

    size(root)
