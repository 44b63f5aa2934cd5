"""The lender's records: which interface is promised to which pod, and, before it is moved, what to restore.

``<state_dir>/pods/<pod uid>/<function>.json`` exists from prepare to unprepare: the CNI plugin's program looks at
whether the pod's folder exists. ``<state_dir>/lost/<function>.json`` tells of an interface that its pod's namespace has
not given back: should it appear again, it gets its name back. The folder is in memory (/run): after a reboot every
interface is where it belongs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from driver.adapters.files.durable_files import (
    entries,
    os_errors_as_node_errors,
    read_regular_file,
    remove_file,
    remove_temporary_files,
    replace_file,
    sync_folder,
)
from driver.api.strict import read, write
from driver.bounded_json import parse_json
from driver.errors import NodeError
from driver.plan.effects import LendInterface
from kubeletplugin.network.netdev.link_facts import Address, Link
from kubeletplugin.state.migrations import newer_version

__all__ = ["FormerLink", "InPod", "Loan", "Record", "Records"]

_LOG: Final = logging.getLogger(__name__)
_LIMIT: Final = 1024 * 1024
_VERSION: Final = 1
_POD_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_FUNCTION: Final = re.compile(r"[0-9a-z][0-9a-z-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerLink:
    """An interface as it was on the host.

    Attributes:
        name: Its name.
        index: Its number there.
        mtu: Bytes.
        mac: Its hardware address.
        can_set_mac: Whether that address can be set: not InfiniBand's.
        kind: As :attr:`Link.kind`.
        is_up: Its admin state.
        altnames: Its other names.
        addresses: Those that do not come back by themselves.
    """

    name: str
    index: int
    mtu: int
    mac: str
    can_set_mac: bool
    kind: str | None
    is_up: bool
    altnames: tuple[str, ...]
    addresses: tuple[Address, ...]

    @staticmethod
    def of(link: Link) -> FormerLink:
        """Return what is to be restored of an interface that is on the host now."""
        return FormerLink(
            name=link.name,
            index=link.index,
            mtu=link.mtu,
            mac=link.mac,
            can_set_mac=link.link_type == "ether",
            kind=link.kind,
            is_up=link.is_up,
            altnames=link.altnames,
            addresses=tuple(address for address in link.addresses if address.moves),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """Written before anything is moved, and removed after all is back.

    Attributes:
        netns: The path of the pod's network namespace.
        device: With ``inode``: which namespace that was.
        inode: As above.
        link: The interface as it was; None where only an RDMA device moves.
    """

    netns: str
    device: int
    inode: int
    link: FormerLink | None

    @property
    def identity(self) -> tuple[int, int]:
        """The namespace's identity, as in :class:`~kubeletplugin.network.netdev.programs.Netns`."""
        return (self.device, self.inode)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPod:
    """The interface as the pod has it.

    Attributes:
        name: Its name.
        mac: Its hardware address.
        addresses: Its addresses with their prefix lengths.
    """

    name: str
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A file of the lender's state.

    Attributes:
        version: Of its form.
        effect: What was promised to whom.
        loan: What is to be undone; None while nothing is moved.
        in_pod: What the pod has; None while nothing is moved.
    """

    version: Literal[1] = 1
    effect: LendInterface
    loan: Loan | None = None
    in_pod: InPod | None = None

    @property
    def label(self) -> str:
        """The claim, device and pod, to begin a message with."""
        effect = self.effect
        return f"claim uid {effect.claim_uid}: {effect.function} ({effect.address}) of pod uid {effect.pod_uid}"


class Records:
    """The files. Nothing here locks: see :class:`~kubeletplugin.network.netdev.lender.InterfaceLender`.

    Args:
        state_dir: Its folder; made when the first record is written.

    Raises:
        NodeError: From every method: a file cannot be read or written.
    """

    def __init__(self, state_dir: Path) -> None:
        self._pods = state_dir / "pods"
        self._lost = state_dir / "lost"

    def write(self, record: Record) -> None:
        """Write a record, durably."""
        self._write(self._path(record.effect.pod_uid, record.effect.function), record)

    def read(self, pod_uid: str, function: str) -> Record | None:
        """Return a record; None if there is none."""
        return self._read(self._path(pod_uid, function))

    def remove(self, record: Record) -> None:
        """Remove a record, and the pod's folder with its last one."""
        path = self._path(record.effect.pod_uid, record.effect.function)
        with os_errors_as_node_errors(f"{record.label}: {path} cannot be removed"):
            remove_file(path)
            remove_temporary_files(path.parent, lambda _: True)
            with suppress(OSError):  # it has other records, or is gone
                path.parent.rmdir()

    def of_pod(self, pod_uid: str) -> list[Record]:
        """Return a pod's records, sorted by function; none if it has no folder."""
        return list(self._in(self._pods / _checked(pod_uid, _POD_UID, "pod uid")))

    def all(self) -> Iterator[Record]:
        """Yield every pod's records. One that cannot be read is left out, with a warning: only its own pod waits."""
        with os_errors_as_node_errors(f"the folder {self._pods} cannot be read"):
            folders = sorted(entries(self._pods))
        for folder in folders:
            if not _POD_UID.fullmatch(folder.name):
                continue
            try:
                yield from list(self._in(folder))
            except NodeError as error:
                _LOG.warning("%s", error)

    def lose(self, record: Record) -> None:
        """Keep a record of an interface that is nowhere, for when it comes back."""
        self._write(self._lost / f"{_checked(record.effect.function, _FUNCTION, 'device')}.json", record)

    def lost(self) -> list[Record]:
        """Return the records of interfaces that were nowhere. One that cannot be read is left out, with a warning."""
        return list(self._readable(self._lost))

    def found(self, record: Record) -> None:
        """Forget that an interface was nowhere."""
        path = self._lost / f"{_checked(record.effect.function, _FUNCTION, 'device')}.json"
        with os_errors_as_node_errors(f"{record.label}: {path} cannot be removed"):
            remove_file(path)

    def _path(self, pod_uid: str, function: str) -> Path:
        name = f"{_checked(function, _FUNCTION, 'device')}.json"
        return self._pods / _checked(pod_uid, _POD_UID, "pod uid") / name

    def _in(self, folder: Path) -> Iterator[Record]:
        for path in self._paths(folder):
            record = self._read(path)
            if record is not None:
                yield record

    def _readable(self, folder: Path) -> Iterator[Record]:
        for path in self._paths(folder):
            try:
                record = self._read(path)
            except NodeError as error:
                _LOG.warning("%s", error)
            else:
                if record is not None:
                    yield record

    def _paths(self, folder: Path) -> list[Path]:
        with os_errors_as_node_errors(f"the folder {folder} cannot be read"):
            return sorted(path for path in entries(folder) if path.suffix == ".json" and path.name[0] != ".")

    def _read(self, path: Path) -> Record | None:
        with os_errors_as_node_errors(f"the record {path} of a lent interface cannot be read"):
            try:
                content = read_regular_file(path, _LIMIT) or b""
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            return read(Record, parse_json(content, max_bytes=_LIMIT))
        except ValueError as error:
            if (version := newer_version(content, _VERSION)) is not None:
                raise NodeError(
                    f"the record {path} of a lent interface has version {version}, and this Rootport knows version "
                    f"{_VERSION}",
                    hint="install the Rootport that wrote it, or a later one; or reboot the node, which ends all loans",
                ) from None
            hint = "move the interface back by hand, then remove that file"
            raise NodeError(f"the record {path} of a lent interface cannot be read: {error}", hint=hint) from error

    def _write(self, path: Path, record: Record) -> None:
        with os_errors_as_node_errors(f"{record.label}: {path} cannot be written"):
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            replace_file(path, json.dumps(write(record)).encode(), mode=0o600)
            sync_folder(path.parent)


def _checked(name: str, allowed: re.Pattern[str], what: str) -> str:
    if not allowed.fullmatch(name):
        raise NodeError(f"{name!r} is no {what}", hint="whoever called Rootport's CNI plugin has made a mistake")
    return name
