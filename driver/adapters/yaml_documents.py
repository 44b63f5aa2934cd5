"""Reads YAML (and JSON, which is YAML) from untrusted files into plain data that remembers its lines.

Size, depth and expansion are bounded before anything is built: a 10,000-deep nesting, an alias bomb or a cyclic alias
is one error with its line. Duplicate fields are errors, as for ``kubectl apply --validate=strict``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from driver.errors import InputError

__all__ = ["Document", "read_documents"]

_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 200_000
_KEY_TAGS: Final = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"})

_LoaderBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LoaderBase):  # type: ignore[misc] # chosen at run time: libyaml's parser where it is built in
    """PyYAML's safe loader without timestamps: in a Kubernetes manifest ``2026-01-01`` is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
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

    def items(self) -> Iterator[Document]:
        """The object itself, or what a ``List`` holds."""
        items = next((value for key, value in self.node.value if key.value == "items"), None)
        if self.data.get("kind") != "List" or not isinstance(items, yaml.SequenceNode):
            yield self
            return
        for index, (node, data) in enumerate(zip(items.value, self.data["items"], strict=True)):
            if not isinstance(data, dict):
                raise InputError(self.error(("items", index), "expected an object"))
            yield Document(self.source, node, data, prefix=f"items[{index}]: ")

    def error(self, loc: Sequence[str | int], message: str) -> str:
        """``file:line: Kind name: field.path: message``."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        subject = " ".join(str(part)[:80] for part in (self.kind, name) if isinstance(part, str) and part)
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".")
        parts = (f"{self.source}:{self.line(loc)}", self.prefix + (subject or "object"), path, message)
        return ": ".join(part for part in parts if part)

    def line(self, loc: Sequence[str | int]) -> int:
        """The line of a field, or of the nearest thing around it that was written."""
        node: Any = self.node
        line = node.start_mark.line
        for step in loc:
            if isinstance(node, yaml.MappingNode):
                pair = next(((key, value) for key, value in node.value if key.value == step), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line
            else:
                break
        return int(line) + 1


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
        raise InputError(f"{where}: not valid YAML: {problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{source}:{line}: not valid YAML: {error.reason}") from error
    except ValueError as error:  # a scalar that looks like a number but is none, such as 0b or 1_
        raise InputError(f"{source}: not valid YAML: {error}") from error


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
