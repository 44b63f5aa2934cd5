"""The difference of two JSON documents, as a JSON Patch (RFC 6902)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["Operation", "json_patch", "patch_response"]

Operation: TypeAlias = dict[str, Any]
"""An operation: ``op``, ``path`` and, but for ``remove``, ``value``."""


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Operation]:
    """Return the operations that make ``after`` of ``before``, in the order in which they are to be applied.

    Members and items that are equal are in no operation. Lists are compared place by place: what a list has more is
    added at its end, what it has less is removed from there.
    """
    return list(_changes(before, after, ""))


def patch_response(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the fields of an admission review's response that admit an object with a patch."""
    patch = json.dumps(operations, separators=(",", ":")).encode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}


def _changes(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": _below(path, key)}
        for key, value in after.items():
            if key in before:
                yield from _changes(before[key], value, _below(path, key))
            else:
                yield {"op": "add", "path": _below(path, key), "value": value}
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _changes(old, new, f"{path}/{index}")
        for index in reversed(range(len(after), len(before))):
            yield {"op": "remove", "path": f"{path}/{index}"}
        for value in after[len(before) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    elif not _is_same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _is_same(before: Any, after: Any) -> bool:
    # To Python 1, 1.0 and True are equal; to JSON true is no number.
    return before == after and isinstance(before, bool) == isinstance(after, bool)


def _below(path: str, key: str) -> str:
    """Return the JSON pointer (RFC 6901) of a member."""
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
