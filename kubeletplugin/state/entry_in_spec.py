"""A copy of a claim's entry in the claim's CDI spec: the way back from a lost checkpoint.

The CDI format has no place for a vendor's own data below version 0.6.0, so it stands in the environment of one more
device, which no answer to the kubelet ever names: no container sees it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from driver.api.strict import read, write
from driver.bounded_json import parse_json
from driver.plan import CdiDevice, CdiSpec, PreparedDevice, PreparePlan
from driver.plan.effects import Effect
from kubeletplugin.state.checkpoint import MAX_BYTES, NewerCheckpointError
from kubeletplugin.state.entry import Entry, EntryFile, entry_devices, lists_all_fields
from kubeletplugin.state.migrations import device_of_version_1, device_of_version_2, device_of_version_3

__all__ = ["Found", "entry_of_plan", "found_in_spec"]

_VARIABLE: Final = "ROOTPORT_CHECKPOINT="
_VERSION: Final = 4
_COMPACT: Final = (",", ":")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A claim's record in its CDI spec: an :class:`Entry` without the content of files.

    Attributes:
        version: That of the checkpoint whose devices and effects these are; versions 1 and 2 did not have it.
        namespace: As in :class:`Entry`.
        name: As there.
        boot_id: As there.
        devices: As there.
        effects: As there.
        files: The paths of the claim's other files.
    """

    version: Literal[4]
    namespace: str
    name: str
    boot_id: str
    devices: tuple[PreparedDevice, ...] = entry_devices()
    effects: tuple[Effect, ...]
    files: tuple[str, ...]


def entry_of_plan(plan: PreparePlan, spec: CdiSpec, boot_id: str) -> Entry:
    """Return the entry of a claim that is about to be prepared.

    Args:
        plan: What was decided.
        spec: The plan's CDI spec.
        boot_id: The node's current boot.
    """
    files = tuple(EntryFile(path=file.relative_path, content=file.content.decode()) for file in plan.files)
    found = Found(
        version=_VERSION,
        namespace=plan.claim.namespace,
        name=plan.claim.name,
        boot_id=boot_id,
        devices=plan.devices,
        effects=plan.effects,
        files=tuple(file.path for file in files),
    )
    marker = CdiDevice(
        name=_marker_name(plan.claim.uid),
        env=(f"{_VARIABLE}{json.dumps(write(found), ensure_ascii=False, separators=_COMPACT)}",),
    )
    return Entry(
        uid=plan.claim.uid,
        namespace=plan.claim.namespace,
        name=plan.claim.name,
        state="prepared",
        boot_id=boot_id,
        devices=plan.devices,
        effects=plan.effects,
        cdi_spec=CdiSpec(claim=spec.claim, devices=(*spec.devices, marker)).to_json().decode(),
        files=files,
    )


def found_in_spec(content: bytes, claim_uid: str) -> Found | None:
    """Return the record in a claim's CDI spec; None if it is damaged or not this plugin's.

    Args:
        content: The file's, of this version or an older one.
        claim_uid: From the file's name.

    Raises:
        NewerCheckpointError: A later version of Rootport wrote it.
    """
    try:
        for device in parse_json(content, max_bytes=MAX_BYTES)["devices"]:
            if device["name"] == _marker_name(claim_uid):
                (variable,) = device["containerEdits"]["env"]
                note = parse_json(variable.removeprefix(_VARIABLE), max_bytes=MAX_BYTES)
                if isinstance(note.get("version"), int) and note["version"] > _VERSION:
                    raise _newer(claim_uid, note["version"])
                note = _up_to_date(note)
                found = read(Found, note)
                return found if lists_all_fields(found.devices, note) else None
    except (ValueError, LookupError, TypeError, AttributeError):  # JsonError and StrictError are ValueErrors
        return None
    return None


def _newer(claim_uid: str, version: int) -> NewerCheckpointError:
    return NewerCheckpointError(
        f"the claim with UID {claim_uid}: its CDI spec has a checkpoint of version {version}, and this Rootport knows "
        f"versions up to {_VERSION}",
        hint="install the Rootport that wrote it, or a later one; to go back to this one, drain the node, end the "
        "plugin, remove the claims' CDI specs, then start this version",
    )


def _up_to_date(note: dict[str, Any]) -> dict[str, Any]:
    """Return what any version of Rootport wrote, as this one writes it: see :mod:`kubeletplugin.state.migrations`."""
    version = note.get("version")
    if version == _VERSION:
        return note
    if "effects" not in note:
        note = _of_version_1(note)
    devices = note["devices"]
    if version is None:
        devices = [device_of_version_2(device) for device in devices]
    return note | {"version": _VERSION, "devices": [device_of_version_3(device) for device in devices]}


def _of_version_1(note: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in note.items() if name != "metadata"}
    devices = [device_of_version_1(device) for device in note["devices"]]
    return kept | {"files": note["metadata"], "effects": [], "devices": devices}


def _marker_name(claim_uid: str) -> str:
    """Return the record's device name: with one ``_``, it is none of :func:`driver.plan.cdi.device_name`'s."""
    return f"{claim_uid}_checkpoint"
