"""JSON Patch as RFC 6902 has it, for add, remove and replace."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["patched"]


def patched(document: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """A copy of ``document`` with the operations applied, in order; LookupError where the RFC says it is an error."""
    result = copy.deepcopy(document)
    for operation in operations:
        path = operation["path"]
        assert path.startswith("/"), path
        *way, last = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
        target = result
        for token in way:
            target = target[_index(token, len(target) - 1)] if isinstance(target, list) else target[token]
        match operation["op"]:
            case "add" if isinstance(target, list):
                place = len(target) if last == "-" else _index(last, len(target))
                target.insert(place, copy.deepcopy(operation["value"]))
            case "add":
                target[last] = copy.deepcopy(operation["value"])
            case "remove":
                del target[_index(last, len(target) - 1) if isinstance(target, list) else last]
            case "replace":
                key = _index(last, len(target) - 1) if isinstance(target, list) else last
                target[key]  # must be there
                target[key] = copy.deepcopy(operation["value"])
            case other:
                raise AssertionError(other)
    return result


def _index(token: str, most: int) -> int:
    if not token.isdecimal() or (token != "0" and token.startswith("0")) or int(token) > most:
        raise IndexError(token)
    return int(token)
