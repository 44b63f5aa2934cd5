"""The format of a journal of effects: ``{"version": 4, "boot_id": "...", "claim": {...}, "effects": [...]}``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.api.strict import read, write
from driver.bounded_json import parse_json
from driver.errors import NodeError
from driver.plan.effects import Effect
from kubeletplugin.state.migrations import newer_version

__all__ = ["MAX_BYTES", "JournalEntry", "NewerJournalError", "decode", "encode", "newer_partitions"]

_VERSION: Final = 4
_WITH_BOOT: Final = 3
"""Version 1 knew no effects on NICs, neither 1 nor 2 has the boot, and before 4 no VF was limited to its bandwidth;
else they are the same.

A later one must keep ``boot_id``, and in the list ``effects`` the fields ``gpu``, ``profile_id`` and ``start`` of what
makes a MIG device: an older Rootport knows by them that the device is no administrator's."""

MAX_BYTES: Final = 1 << 20
"""An effect takes some 200 bytes, and a claim has 32 devices at most."""


class NewerJournalError(NodeError):
    """A later version of Rootport wrote a claim's journal: this one must not touch it, nor do the claim's effects.

    Attributes:
        content: Its content.
    """

    retry_helps = False

    def __init__(self, message: str, *, hint: str, content: bytes) -> None:
        super().__init__(message, hint=hint)
        self.content = content


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """The effects of one claim on the node.

    Attributes:
        claim: Whose effects they are.
        effects: In the order in which they are done.
        boot_id: The node's boot in which they are done; None in a journal of a version that did not say it.
    """

    claim: ClaimReference
    effects: tuple[Effect, ...]
    boot_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    version: int
    boot_id: str | None = None
    claim: _Claim
    effects: tuple[Effect, ...]


def encode(claim: ClaimReference, effects: Sequence[Effect], boot_id: str) -> bytes:
    """Return a journal's content.

    Args:
        claim: The claim.
        effects: In the order in which they are done.
        boot_id: The node's boot in which they are done.
    """
    file = _File(
        version=_VERSION,
        boot_id=boot_id,
        claim=_Claim(uid=claim.uid, namespace=claim.namespace, name=claim.name),
        effects=tuple(effects),
    )
    return json.dumps(write(file), ensure_ascii=False, indent=2).encode() + b"\n"


def decode(content: bytes | None, claim_uid: str, path: Path) -> JournalEntry:
    """Decode a journal's file.

    Raises:
        NewerJournalError: A later version of Rootport wrote it.
        ValueError: It is no journal of this claim.
    """
    if content is None or len(content) > MAX_BYTES:
        raise ValueError(f"it is no file, or over {MAX_BYTES} bytes long")
    if (version := newer_version(content, _VERSION)) is not None:
        raise NewerJournalError(
            f"the journal {path} of what claim with UID {claim_uid} did to the node's devices is of version {version}, "
            f"and this Rootport knows version {_VERSION}: it is left as it is, and the claim is neither prepared nor "
            "are its effects undone",
            hint="install the Rootport that wrote it, or a later one; or drain and reboot the node, which ends the "
            "effects, and remove the file",
            content=content,
        )
    try:
        file = read(_File, parse_json(content, max_bytes=MAX_BYTES))
    except ValueError as error:
        raise ValueError(str(error)) from None
    if not 1 <= file.version <= _VERSION or (file.version >= _WITH_BOOT) != (file.boot_id is not None):
        raise ValueError("its version is none, or not that of its fields")
    if file.claim.uid != claim_uid:
        raise ValueError("its claim is not what its name says")
    claim = ClaimReference(namespace=file.claim.namespace, name=file.claim.name, uid=file.claim.uid)
    return JournalEntry(claim=claim, effects=file.effects, boot_id=file.boot_id)


def newer_partitions(content: bytes, boot_id: str) -> frozenset[tuple[str, int, int]]:
    """Return the places of MIG devices in a journal of a later version, of which nothing else is understood.

    Args:
        content: The file's.
        boot_id: The node's; what the file says of another boot is gone.
    """
    document = parse_json(content, max_bytes=MAX_BYTES)
    effects = document.get("effects")
    if document.get("boot_id") not in (boot_id, None) or not isinstance(effects, list):
        return frozenset()
    return frozenset(
        (effect["gpu"], effect["profile_id"], effect["start"])
        for effect in effects
        if isinstance(effect, dict)
        and isinstance(effect.get("gpu"), str)
        and all(type(effect.get(field)) is int for field in ("profile_id", "start"))
    )
