"""Decides which writes turn the stored ResourceSlices of a node's pool into the desired ones: few, in a safe order.

Source of the rules: k8s.io/dynamic-resource-allocation v0.36.3, resourceslice/resourceslicecontroller.go (syncPool):

- Slices are compared by meaning: quantities by value; the order of devices counts; a taint's ``timeAdded`` does not if
  it is not set, and it is kept, also if a device moves to another slice.
- At most one slice to update and none to create: its generation stays. Anything else raises the generation above every
  stored one and writes all slices.
- Obsolete slices are deleted first (of that uid and resource version only), then slices are updated, then created.

Consumers use the slices of the highest generation, and only if they are as many as each of them says. So between any
two of these writes they see the former pool, the new pool, or one that is being updated; never a mixture.

Unlike upstream, names are not random: a slice of an older generation is updated in place (what a crash between two
writes leaves is repaired, not deleted), and a slice that a lagging cache does not show yet cannot be created twice,
because the API server refuses the name. If a foreign object has the name, another one is taken, whose end cannot be
foreseen; the slice is recognized by that name as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from controller.slices.content import has_content, is_same_content, read, spec_wire
from controller.slices.taints import TaintTimes, taint_times, timed
from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.resource_v1 import API_VERSION, ResourcePool, ResourceSlice, ResourceSliceSpec
from driver.layout.names import slice_name

__all__ = [
    "AcceptedLoss",
    "SliceChanges",
    "SliceDeletion",
    "SliceWrite",
    "loss",
    "slice_changes",
    "withdrawal",
]

_INDEX_LENGTH: Final = 5
_INDEX: Final = re.compile(r"[0-9a-f]{5}-")
_NO_LOSSES: Final[Mapping[str, AcceptedLoss]] = {}
_NO_OTHERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedLoss:
    """A slice of which the API server dropped fields, because a feature gate is off.

    Attributes:
        sent: The specification that was written.
        stored: The one that was stored, which is expected as long as ``sent`` is desired.
    """

    sent: ResourceSliceSpec
    stored: ResourceSliceSpec

    @property
    def has_counters(self) -> bool:
        """Whether counters are among what was dropped."""
        return _counted(self.sent) != _counted(self.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDeletion:
    """A slice to delete, if it is still the one that was read."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceWrite:
    """A slice to replace or create.

    Attributes:
        name: The object's name.
        first_name: The name that it has unless a foreign object has that.
        index: Its place in the pool.
        spec: Its specification.
        body: The whole object as the API server takes it.
    """

    name: str
    first_name: str
    index: int
    spec: ResourceSliceSpec
    body: JsonObject

    def renamed(self, name: str) -> SliceWrite:
        """Return the same slice under another name."""
        return replace(self, name=name, body=self.body | {"metadata": self.body["metadata"] | {"name": name}})


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceChanges:
    """The writes, to be done in the order of the fields; false if there are none.

    Attributes:
        generation: The pool's generation once they are done.
        delete: Obsolete slices.
        replace: Slices that differ, or whose generation rises.
        create: Slices that are missing.
    """

    generation: int
    delete: tuple[SliceDeletion, ...] = ()
    replace: tuple[SliceWrite, ...] = ()
    create: tuple[SliceWrite, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.delete or self.replace or self.create)


class _Stored:
    """A stored slice, read only as far as that is needed."""

    def __init__(self, wire: JsonObject) -> None:
        self.wire = wire
        self.name: str = wire["metadata"]["name"]
        self.generation: int = wire["spec"]["pool"].get("generation", 0)

    @cached_property
    def spec(self) -> ResourceSliceSpec | None:
        """Its specification; None if this version could not have written it."""
        return read(self.wire["spec"])

    def is_in(self, pool: ResourcePool) -> bool:
        """Return whether it is in this pool, of this generation and number of slices."""
        there = self.wire["spec"]["pool"]
        known = there.get("name"), self.generation, there.get("resourceSliceCount", 0)
        return known == (pool.name, pool.generation, pool.resource_slice_count)


def slice_changes(
    desired: Sequence[ResourceSlice],
    stored: Sequence[JsonObject],
    *,
    node_uid: str,
    accepted: Mapping[str, AcceptedLoss] = _NO_LOSSES,
    other_names: Mapping[str, str] = _NO_OTHERS,
) -> SliceChanges:
    """Return the writes that make the pool the desired one.

    Args:
        desired: All slices of the node's pool in their order, at least one; the stored slices decide about their names
            and generation.
        stored: All slices of this driver in the pool of that name, as the API server has them.
        node_uid: The Node's UID. The Node owns the slices, and a new Node of the same name gets new ones.
        accepted: What the API server is known to drop, by slice name.
        other_names: The names that slices get instead of those that foreign objects have.
    """
    node = desired[0].spec.pool.name
    found = [_Stored(wire) for wire in stored]
    own = {item.name: item for item in found if _belongs_to(item, node)}
    names = _names(node, node_uid, len(desired), own, other_names)
    current = {name: own[name] for name in names if name in own}
    obsolete = tuple(_deletion(item.wire) for item in found if item.name not in current)
    highest = max((item.generation for item in found), default=0)
    pool = ResourcePool(name=node, generation=highest, resource_slice_count=len(desired))
    changed = {
        name
        for name, wanted in zip(names, desired, strict=True)
        if name in current and not _is_as_wanted(current[name], wanted.spec, pool, node_uid, accepted.get(name))
    }
    raised = len(current) < len(desired) or len(changed) > 1
    if raised:
        pool = pool.model_copy(update={"generation": highest + 1})
    times = _times(found) if raised or changed else {}
    updates, create = [], []
    for index, (name, wanted) in enumerate(zip(names, desired, strict=True)):
        there = current.get(name)
        if there is None:
            create.append(_write(name, index, _in_pool(wanted.spec, pool, times), node_uid, {}))
        elif raised or name in changed:
            updates.append(_write(name, index, _in_pool(wanted.spec, pool, times), node_uid, there.wire["metadata"]))
    return SliceChanges(generation=pool.generation, delete=obsolete, replace=tuple(updates), create=tuple(create))


def withdrawal(stored: Sequence[JsonObject]) -> SliceChanges:
    """Return the deletions of all these slices."""
    return SliceChanges(generation=0, delete=tuple(_deletion(wire) for wire in stored))


def loss(write: SliceWrite, answer: JsonObject) -> AcceptedLoss | None:
    """Return what the API server dropped of a write, by its answer; None if it stored what was sent."""
    stored = answer["spec"]
    if has_content(stored, write.spec) or (got := read(stored)) is None:
        return None
    return AcceptedLoss(sent=write.spec, stored=got)


def _counted(spec: ResourceSliceSpec) -> tuple[set[str], set[str]]:
    """Return which sets of counters there are, and which devices consume any."""
    return {of.name for of in spec.shared_counters}, {item.name for item in spec.devices if item.consumes_counters}


def _names(node: str, node_uid: str, count: int, stored: Iterable[str], other_names: Mapping[str, str]) -> list[str]:
    """The name of each slice of a pool: the stored one's, or the one that it is to get."""
    there = set(stored)
    names = [slice_name(node, node_uid, index) for index in range(count)]
    for name in sorted(there.difference(names)):
        index = int(name[:_INDEX_LENGTH], 16) if _INDEX.match(name) else count
        if (
            index < count
            and names[index] not in there
            and name == slice_name(node, node_uid, index, other=name.rpartition("-")[2])
        ):
            names[index] = name
    return [name if name in there else other_names.get(name, name) for name in names]


def _times(found: Iterable[_Stored]) -> TaintTimes:
    return taint_times([item.spec for item in sorted(found, key=lambda item: item.generation) if item.spec])


def _belongs_to(stored: _Stored, node: str) -> bool:
    # Driver, pool name and node name are immutable: a slice that differs there cannot be updated.
    spec = stored.wire["spec"]
    return (spec.get("driver"), spec["pool"].get("name"), spec.get("nodeName")) == (DRIVER_NAME, node, node)


def _is_as_wanted(
    stored: _Stored, wanted: ResourceSliceSpec, pool: ResourcePool, node_uid: str, accepted: AcceptedLoss | None
) -> bool:
    if not stored.is_in(pool) or not _is_owned(stored.wire, node_uid):
        return False
    if accepted is not None and is_same_content(wanted, accepted.sent):
        wanted = accepted.stored
    return has_content(stored.wire["spec"], wanted)


def _is_owned(wire: JsonObject, node_uid: str) -> bool:
    owners = wire["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == node_uid and owner.get("controller") is True for owner in owners)


def _in_pool(spec: ResourceSliceSpec, pool: ResourcePool, times: TaintTimes) -> ResourceSliceSpec:
    return spec.model_copy(update={"pool": pool, "devices": timed(spec.devices, times)})


def _deletion(wire: JsonObject) -> SliceDeletion:
    metadata = wire["metadata"]
    return SliceDeletion(name=metadata["name"], uid=metadata["uid"], resource_version=metadata["resourceVersion"])


def _write(name: str, index: int, spec: ResourceSliceSpec, node_uid: str, metadata: JsonObject) -> SliceWrite:
    owner = {"apiVersion": "v1", "kind": "Node", "name": spec.pool.name, "uid": node_uid, "controller": True}
    # Labels and annotations stay, whoever has set them; managedFields are the API server's.
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    body: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": kept | {"name": name, "ownerReferences": [owner]},
        "spec": spec_wire(spec),
    }
    first_name = slice_name(spec.pool.name, node_uid, index)
    return SliceWrite(name=name, first_name=first_name, index=index, spec=spec, body=body)
