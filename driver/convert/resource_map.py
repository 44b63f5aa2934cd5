"""Turns a resource map into the settings of a conversion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_map import MappedResource, ResourceMap
from driver.cel import CelCompileError, compile_selector
from driver.convert.requests import NicRequest
from driver.convert.settings import Settings

__all__ = ["selector_problems", "settings_of"]

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


def selector_problems(resource_map: ResourceMap) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the selectors that the API server would refuse, each with its field and why."""
    for index, item in enumerate(resource_map.resources):
        for place, expression in enumerate(item.selectors):
            try:
                compile_selector(expression)
            except CelCompileError as error:
                yield ("resources", index, "selectors", place), str(error)


def _nic(item: MappedResource) -> NicRequest:
    is_own = item.device_class_name in (_NICS, _VFS)
    return NicRequest(
        count=item.count,
        is_vf=item.device_class_name == _VFS,
        bandwidth=None if item.bandwidth is None else item.bandwidth.ceil(),
        device_class="" if is_own else item.device_class_name,
        selectors=item.selectors,
    )
