"""Reads YAML (and JSON, which is YAML) that people wrote, into plain data that remembers its lines.

Size, depth and expansion are bounded before anything is built: a 10,000-deep nesting, an alias bomb or a cyclic alias
is one error with its line. Duplicate fields are errors, as with ``kubectl apply --validate=strict``. Large files that
programs wrote are read by :mod:`driver.adapters.files.yaml_values`, which is faster and keeps no lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from driver.adapters.files.document import Document, Problem, ProblemKind, Report, printable, refuse
from driver.api.validation.errors import shown

__all__ = ["Document", "printable", "read_documents"]

_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 200_000
_TAG: Final = "tag:yaml.org,2002:"
_KEY_TAGS: Final = frozenset({_TAG + "str", _TAG + "merge"})
_VALUE_TAGS: Final = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))
"""The types of JSON, which are all that an object of Kubernetes can contain."""

_NUMBER_TAGS: Final = frozenset({_TAG + "int", _TAG + "float"})

_MAX_INTEGER_BITS: Final = 64
_MAX_NUMBER: Final = 400
"""Characters. PyYAML takes quadratic time for the number ``1:59:59:...``, which has the base 60."""
_LoaderBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LoaderBase):  # type: ignore[misc] # chosen at run time: libyaml's parser where it is built in
    """PyYAML's safe loader, for which ``2026-01-01``, ``1:30`` and ``=`` are strings, as in a Kubernetes manifest.

    PyYAML's constructors let Python's own errors through where a scalar is not what its tag says (``!!bool foo``,
    ``0b_``, a number of 5,000 digits); here they are errors with a line.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBER_TAGS and len(node.value) > _MAX_NUMBER:
            raise _wrong_scalar(node)
        try:
            data = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise _wrong_scalar(node) from error
        if isinstance(data, int) and data.bit_length() > _MAX_INTEGER_BITS:
            raise _wrong_scalar(node)
        return data

    def forget(self) -> None:
        """Leave a document that was not constructed to its end, so that the next one starts afresh."""
        self.constructed_objects: dict[yaml.Node, Any] = {}
        self.recursive_objects: dict[yaml.Node, Any] = {}
        self.state_generators: list[Any] = []
        self.deep_construct = False


class _DocumentError(Exception):
    """A document is valid YAML, but no object of Kubernetes.

    Args:
        node: The node at fault.
        problem: What is wrong.
    """

    def __init__(self, node: yaml.Node, problem: str) -> None:
        super().__init__(problem)
        self.line: int = node.start_mark.line + 1


def _wrong_scalar(node: yaml.Node) -> _DocumentError:
    kind = node.tag.removeprefix(_TAG)
    problem = f"{shown(str(node.value))} cannot be read as {kind}"
    if kind == "int" and str(node.value).lstrip("+-").isdecimal():
        problem += f": it is too large, numbers in Kubernetes have at most {_MAX_INTEGER_BITS} bits"
    return _DocumentError(node, problem)


def _without_base_60(tag: str, pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern without numbers such as ``1:30``, which kubectl reads as strings."""
    return re.compile(f"(?!.*:)(?:{pattern.pattern})", re.VERBOSE) if tag in _NUMBER_TAGS else pattern


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _without_base_60(tag, pattern))
        for tag, pattern in resolvers
        if tag not in (_TAG + "timestamp", _TAG + "value")
    ]
    for first, resolvers in _LoaderBase.yaml_implicit_resolvers.items()
}


def read_documents(text: str, source: str, report: Report = refuse) -> Iterator[Document]:
    """Yield the documents of a YAML stream, empty ones left out.

    Args:
        text: The stream.
        source: Its name in messages.
        report: Called for what is not YAML, is nested or expands beyond bounds, repeats a field, or is no mapping. Of a
            stream that is not YAML nothing is read; of others, the valid documents.
    """

    def error(kind: ProblemKind, line: int | None, message: str, hint: str = "") -> None:
        report(Problem(kind=kind, source=source, line=line, message=message, hint=hint))

    template = "is it a Helm template? Then read what `helm template` makes of it" if "{{ " in text else ""
    try:
        _check_depth(text)
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                try:
                    _check_node(node)
                    data = loader.construct_document(node)
                except _DocumentError as problem:
                    loader.forget()
                    error(ProblemKind.UNREADABLE, problem.line, printable(str(problem)), template)
                    continue
                if data is None:
                    continue
                if not isinstance(node, yaml.MappingNode) or not isinstance(data, dict):
                    line = node.start_mark.line + 1
                    error(ProblemKind.NOT_AN_OBJECT, line, "expected a Kubernetes object (a mapping)")
                    continue
                yield Document(source, node, data)
        finally:
            loader.dispose()
    except _StreamError as problem:
        error(ProblemKind.UNREADABLE, problem.line, str(problem), "no Kubernetes object is like that")
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, message = _json_mistake(text) if source.endswith(".json") else (None, "")
        if not message:
            line = mark.line + 1 if mark else None
            message = f"not valid YAML: {printable(problem.problem or problem.context or 'malformed')}"
        error(ProblemKind.UNREADABLE, line, message, template)
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        error(ProblemKind.UNREADABLE, line, f"not valid YAML: {problem.reason}")


class _StreamError(Exception):
    """A stream is too large, or nested too deeply, to be read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def _json_mistake(text: str) -> tuple[int | None, str]:
    """Return the line and what is wrong with JSON; nothing if it is valid, or only nested too deeply."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        return error.lineno, f"not valid JSON: {'it ends in the middle' if is_cut else error.msg}"
    except (ValueError, RecursionError):
        pass
    return None, ""


def _check_depth(text: str) -> None:
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
            raise _StreamError(event.start_mark.line + 1 if event.start_mark else 1, what)


def _check_node(root: yaml.Node) -> None:
    """Refuse duplicate keys, keys that are no strings, cyclic aliases, and aliases that multiply (a YAML bomb)."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            if known == 0:
                raise _DocumentError(node, "an alias refers to what it is part of")
            return known
        sizes[id(node)] = 0
        if node.tag not in _VALUE_TAGS:
            raise _DocumentError(node, f"not valid YAML for Kubernetes: the tag {shown(node.tag)} has no JSON type")
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(size(child) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEY_TAGS:
                    raise _DocumentError(key, "a field's name must be a string")
                if key.value in seen:
                    raise _DocumentError(key, f"the field {key.value[:80]!r} is there twice")
                seen.add(key.value)
                total += size(value)
        if total > _MAX_NODES:
            raise _DocumentError(node, f"expands to more than {_MAX_NODES} items")
        sizes[id(node)] = total
        return total

    size(root)
