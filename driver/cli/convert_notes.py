"""Notes of ``rootport convert`` on options that had no effect on the given files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from driver.api.pod_templates import containers, resources_of
from driver.convert import Settings
from driver.convert.objects import pods_at, pods_of
from driver.spelling import close_matches
from driver.wording import listed, plural

__all__ = ["without_effect"]

_NAMES_SHOWN: Final = 5


def without_effect(objects: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[str]:
    """Yield notes on paths at which there is no pod, and on entries of the resource map that no pod asks for.

    Args:
        objects: The objects of the files.
        settings: What the options say.
    """
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for data in objects:
        if isinstance(kind := data.get("kind"), str):
            by_kind.setdefault(kind, []).append(data)
    for kind, paths in settings.pod_paths.items():
        of_kind = by_kind.get(kind, [])
        if not of_kind:
            near = next(iter(close_matches(kind, by_kind)), "")
            yield f"--path {kind}: no object of that kind in the files" + (f"; did you mean {near}?" if near else "")
            continue
        for path in paths:
            if not any(True for data in of_kind for pod in pods_at(data, path) for _ in containers(pod)):
                objects_seen = f"{plural(len(of_kind), 'object')} of that kind"
                yield f"--path {kind}={path}: no pod there in {objects_seen} (lists need [*])"
    yield from _unused_resources(objects, settings)


def _unused_resources(objects: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[str]:
    if not settings.resources:
        return
    asked = {
        name
        for data in objects
        for pod in pods_of(data, settings)
        for steps, container in containers(pod)
        for name in resources_of(container, steps)
    }
    unused = [name for name in settings.resources if not any(_is_of(each, name) for each in asked)]
    if unused:
        yield f"--resources: no pod of the files asks for {listed(unused, shown=_NAMES_SHOWN)}"


def _is_of(name: str, pattern: str) -> bool:
    return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
