"""Turns a resource map into the settings of a conversion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_map import MappedResource, ResourceMap
from driver.cel import CelCompileError, compile_selector
from driver.convert.dialects import DIALECTS
from driver.convert.requests import NicRequest
from driver.convert.settings import Settings

__all__ = ["map_problems", "settings_of"]

_VFS: Final = f"rdma-vf.{DRIVER_NAME}"
_NICS: Final = f"rdma.{DRIVER_NAME}"


def settings_of(resource_map: ResourceMap) -> Settings:
    """Return the settings that a resource map makes; its selectors are to be right."""
    return Settings(
        resources={item.name: _nic(item) for item in resource_map.resources},
        networks={network: item.name for item in resource_map.resources for network in item.networks},
        share_strategy=resource_map.share_strategy or "",
        left_alone=frozenset(resource_map.left_alone),
    )


def map_problems(resource_map: ResourceMap) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what is wrong in a map of the right form, each with its field and why.

    Names that the converter reads without the map, names that are in both lists, and selectors that the API server
    would refuse.
    """
    left_alone = frozenset(resource_map.left_alone)
    for index, item in enumerate(resource_map.resources):
        if read := next((each for each in _read_without_map() if _have_common(item.name, each[0])), None):
            name, system = read
            text = f"{name} is a name of {system} and converted as such: an entry here does not count for it"
            yield ("resources", index, "name"), text
        if item.name in left_alone:
            yield ("resources", index, "name"), f"{item.name} is under leftAlone as well: write it in one of them"
        for place, expression in enumerate(item.selectors):
            try:
                compile_selector(expression)
            except CelCompileError as error:
                yield ("resources", index, "selectors", place), str(error)


def _read_without_map() -> Iterator[tuple[str, str]]:
    """Yield the names of resources that come before those of the map, each with the system that has it."""
    yield from ((line.name, dialect.name) for dialect in DIALECTS for line in dialect.resources if not line.shared)


def _have_common(one: str, other: str) -> bool:
    """Whether there is a name that both are, or begin where they end in ``*``."""
    first, second = one.removesuffix("*"), other.removesuffix("*")
    if one == first and other == second:
        return one == other
    return (one != first and second.startswith(first)) or (other != second and first.startswith(second))


def _nic(item: MappedResource) -> NicRequest:
    is_own = item.device_class_name in (_NICS, _VFS)
    return NicRequest(
        count=item.count,
        is_vf=item.device_class_name == _VFS,
        bandwidth=None if item.bandwidth is None else item.bandwidth.ceil(),
        device_class="" if is_own else item.device_class_name,
        selectors=item.selectors,
    )
