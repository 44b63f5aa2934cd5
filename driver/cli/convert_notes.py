"""Notes of ``rootport convert`` on options that had no effect on what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver.api.pod_templates import containers, resources_of
from driver.convert import Settings
from driver.convert.objects import pods_at, pods_of
from driver.spelling import close_matches
from driver.wording import listed, plural

__all__ = ["WithoutEffect"]

_NAMES_SHOWN: Final = 5


@dataclass(slots=True)
class WithoutEffect:
    """The paths at which no object has a pod, and the entries of the resource map that no pod asks for.

    Attributes:
        settings: What the options say.
    """

    settings: Settings
    _kinds: Counter[str] = field(default_factory=Counter)
    _met: set[tuple[str, str]] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)  # entries of the map

    def add(self, data: Mapping[str, Any]) -> None:
        """Take note of an object that was read."""
        kind = data.get("kind")
        if isinstance(kind, str):
            self._kinds[kind] += 1
            for path in self.settings.pod_paths.get(kind, ()):
                if (kind, path) not in self._met and _has_pod(data, path):
                    self._met.add((kind, path))
        left = [entry for entry in self.settings.resources if entry not in self._asked]
        if left:
            names = {
                name
                for pod in pods_of(data, self.settings)
                for steps, container in containers(pod)
                for name in resources_of(container, steps)
            }
            self._asked.update(entry for entry in left if any(_is_of(name, entry) for name in names))

    def notes(self) -> Iterator[str]:
        """Yield a note on each path, and one on the resource map."""
        for kind, paths in self.settings.pod_paths.items():
            if kind not in self._kinds:
                near = next(iter(close_matches(kind, self._kinds)), "")
                yield f"--path {kind}: no object of that kind was read" + (f"; did you mean {near}?" if near else "")
                continue
            for path in paths:
                if (kind, path) not in self._met:
                    count = f"{plural(self._kinds[kind], 'object')} of that kind"
                    yield f"--path {kind}={path}: no pod there in {count} (lists need [*])"
        unused = [entry for entry in self.settings.resources if entry not in self._asked]
        if unused:
            yield f"--resources: no pod that was read asks for {listed(unused, shown=_NAMES_SHOWN)}"


def _has_pod(data: Mapping[str, Any], path: str) -> bool:
    return any(True for pod in pods_at(data, path) for _ in containers(pod))


def _is_of(name: str, pattern: str) -> bool:
    return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
