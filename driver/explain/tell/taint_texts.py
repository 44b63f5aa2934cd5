"""Writes about the taints of devices: which, who set them, and what is wrong with an unhealthy device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.allocator.demands import Demand
from driver.allocator.identity import DeviceId
from driver.allocator.pools import PooledDevice
from driver.allocator.taints import refusing_taints
from driver.api.resource_v1 import DeviceTaint
from driver.explain.known.state import ClusterState
from driver.explain.texts import device_names, joined, taint_text
from driver.wording import plural, short

__all__ = ["rivals_text", "taints_text", "unhealthy_text"]

_LONGEST: Final = 240
_RIVAL: Final = 480  # with the command that helps


def taints_text(state: ClusterState, devices: Sequence[PooledDevice], demand: Demand) -> str:
    """Write which taints keep the devices away, and who set them."""
    found: dict[str, list[PooledDevice]] = {}
    for device in devices:
        taints = refusing_taints(device.device.taints, demand.tolerations)
        if taints:
            # What is wrong with a device explains more than any other of its taints.
            first = min(taints, key=lambda taint: not state.is_unhealthy(device.id, taint))
            found.setdefault(_taint(state, device, first), []).append(device)
    texts = [
        f"{plural(len(tainted), 'device')} ({device_names(tainted)}) {text if len(tainted) > 1 else _of_one(text)}"
        for text, tainted in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return joined(texts, what="more taints")


def unhealthy_text(state: ClusterState, device: DeviceId, taint: DeviceTaint) -> str:
    """Write ``unhealthy, Xid79: …`` of a device with Rootport's taint; only the reason if no fault is reported."""
    fault = state.fault_behind(device, taint)
    return f"unhealthy, {taint.value}: {short(fault.message, _LONGEST)}" if fault else f"unhealthy, {taint.value}"


def rivals_text(state: ClusterState, device: DeviceId, taint: DeviceTaint) -> str:
    """Write which system, and what to do; only its kind if the plugin no longer reports it."""
    rivals = state.rivals_behind(device, taint)
    if not rivals:
        return f"a {taint.value} on node {device.pool}"
    return joined([f"{rival.name} on node {device.pool}: {short(rival.message, _RIVAL)}" for rival in rivals])


def _taint(state: ClusterState, device: PooledDevice, taint: DeviceTaint) -> str:
    """Write what follows on ``2 devices``."""
    set_by = f"{taint_text(taint)}, set by {state.taint_source(device.id, taint)}"
    if state.is_unhealthy(device.id, taint):
        return f"are {unhealthy_text(state, device.id, taint)} (taint {set_by})"
    if state.is_given_out_elsewhere(device.id, taint):
        return f"are given out by another system as well, {rivals_text(state, device.id, taint)} (taint {set_by})"
    if state.is_refused(device.id, taint):
        why = short(state.inventory_problem(device.id.pool), _LONGEST) or taint.value
        return f"are on node {device.id.pool}, whose plugin can prepare no claim: {why} (taint {set_by})"
    if state.lacks_strategy(device.id, taint):
        why = short(state.inventory_problem(device.id.pool), _LONGEST) or "its plugin has not said that it can"
        return f"are on node {device.id.pool}, which cannot serve strategy {taint.value}: {why} (taint {set_by})"
    if state.has_default_route(device.id, taint):
        return f"are what the node's default route goes through, and are kept for the node (taint {set_by})"
    return f"have the taint {set_by}"


def _of_one(text: str) -> str:
    verb, _, rest = text.partition(" ")
    return f"{'is' if verb == 'are' else 'has'} {rest}"
