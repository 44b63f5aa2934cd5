"""Sets a VF's settings at its PF as a claim asks (``ip link set PF vf NUM …``), and restores them once it ends.

What was before is written down first, in ``<state_dir>/vfs/<function>.json``. The PF's driver sees to the settings
wherever the VF's own interface is, so that a pod cannot change them.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from driver.adapters.files.durable_files import (
    os_errors_as_node_errors,
    read_regular_file,
    remove_file,
    replace_file,
    sync_folder,
)
from driver.adapters.host import HostRoot
from driver.api.strict import read, write
from driver.bounded_json import parse_json
from driver.errors import NodeError
from driver.plan.effects import ConfigureVf, VfSettings
from kubeletplugin.effects.effector import NotLimited
from kubeletplugin.network.netdev.interfaces import sysfs_names
from kubeletplugin.network.netdev.lender import HOST_NETNS
from kubeletplugin.network.netdev.link_facts import VfFacts
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import Netns, opened_netns
from kubeletplugin.node.roots import Roots
from kubeletplugin.state.file_lock import FileLock
from kubeletplugin.state.migrations import newer_version

__all__ = ["VfConfigurer"]

_LOG: Final = logging.getLogger(__name__)
_LIMIT: Final = 64 * 1024
_VERSION: Final = 2
"""Version 1 knew no limits that a driver may refuse; else they are the same."""
_FUNCTION: Final = re.compile(r"[0-9a-z][0-9a-z-]{0,62}")
_GUID: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){7}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Former:
    """What is written down: the effect, and the former settings.

    Attributes:
        version: Of its form.
        effect: What is set.
        settings: As it was; None for what the driver does not report.
        vlan_protocol: Of the VLAN tag, where it is not 802.1Q.
        node_guid: As it was: a claim sets both GUIDs to one value.
    """

    version: Literal[1, 2] = 2
    effect: ConfigureVf
    settings: VfSettings
    vlan_protocol: str | None
    node_guid: str | None


class VfConfigurer:
    """Does and undoes :class:`ConfigureVf`. Safe for several threads and processes.

    Args:
        roots: Where sysfs is, which has the name of the PF's interface.
        state_dir: Where former values are written down: a folder in memory, as VFs are made anew after a reboot.
        host_netns: The network namespace in which the PFs' interfaces are.
        links: Reads and changes the kernel's interfaces.
    """

    def __init__(self, roots: Roots, *, state_dir: Path, host_netns: Path = HOST_NETNS, links: Links) -> None:
        self._hardware: HostRoot = roots.hardware
        self._folder = state_dir / "vfs"
        self._host_netns = host_netns
        self._links = links
        self._lock = FileLock(state_dir / "vfs.lock", holder=f"process {os.getpid()}")

    def do(self, effect: ConfigureVf) -> NotLimited | None:
        """Set what the claim asks for; what is so already stays untouched.

        Returns:
            Why the VF is not limited to its bandwidth, where the driver cannot do that; else None.

        Raises:
            NodeError: The driver refuses one of the settings, or the VF is gone.
        """
        doing = _label(effect)
        guid = effect.settings.guid
        if guid is not None and not _GUID.fullmatch(guid.lower()):
            raise NodeError(f"{doing}: {guid!r} is no GUID", hint="write it as 00:11:22:33:44:55:66:77")
        with self._lock.held(), opened_netns(self._host_netns, doing=doing) as host:
            found = self._find(effect, host)
            if found is None and effect.settings == VfSettings():
                return NotLimited(reason=f"no interface of the NIC {effect.pf_address} has its VF {effect.index}")
            if found is None:
                reason = f"{doing}: no interface of the PF {effect.pf_address} has a VF {effect.index}"
                raise NodeError(reason, hint="see ip link on the node; the PF's driver must be bound")
            pf, vf = found
            former = self._read(effect)
            if former is not None and former.effect != effect:
                self._restore(former, pf, vf, host)
                self._forget(effect)
                former, vf = None, self._again(effect, host)[1]
            if former is None:
                self._write(_before(effect, vf))
            for words in _changes(effect.settings, vf):
                self._links.set_vf(host, pf, effect.index, words, doing=doing)
            if effect.rate_limit is None:
                return None
            # Not every driver has rates, which shows only when one is set; what the scheduler promised holds without.
            try:
                for words in _changes(VfSettings(max_tx_rate=effect.rate_limit), vf):
                    self._links.set_vf(host, pf, effect.index, words, doing=doing)
            except NodeError as error:
                _LOG.warning("%s: not limited to %d Mb/s: %s", doing, effect.rate_limit, error.message)
                return NotLimited(reason=error.message)
            return None

    def undo(self, effect: ConfigureVf) -> None:
        """Set what was before; a VF that is gone has no settings.

        Raises:
            NodeError: The driver refuses a value that it once had.
        """
        with self._lock.held(), opened_netns(self._host_netns, doing=_label(effect)) as host:
            former = self._read(effect)
            if former is None or former.effect != effect:
                return
            found = self._find(effect, host)
            if found is None:
                _LOG.warning("%s: the VF is gone, and its settings with it", _label(effect))
            else:
                self._restore(former, found[0], found[1], host)
            self._forget(effect)

    def _restore(self, former: _Former, pf: str, vf: VfFacts, host: Netns) -> None:
        effect = former.effect
        changes = _changes(former.settings, vf, protocol=former.vlan_protocol, node_guid=former.node_guid)
        for words in changes:
            self._links.set_vf(host, pf, effect.index, words, doing=f"{_label(effect)}: restoring")

    def _find(self, effect: ConfigureVf, host: Netns) -> tuple[str, VfFacts] | None:
        """Return the PF's interface that has the VF, and the VF: a PF may have others, such as representors."""
        doing = _label(effect)
        links = self._links.links(host, doing=doing)
        in_sysfs = sysfs_names(self._hardware, effect.pf_address)
        names = [link.name for link in links if link.parent == effect.pf_address or link.name in in_sysfs]
        for name in sorted(names):
            for vf in self._links.vfs(host, name, doing=doing):
                if vf.index == effect.index:
                    return name, vf
        return None

    def _again(self, effect: ConfigureVf, host: Netns) -> tuple[str, VfFacts]:
        found = self._find(effect, host)
        if found is None:
            raise NodeError(f"{_label(effect)}: the VF has just gone", hint="see dmesg on the node; it is tried again")
        return found

    def _path(self, effect: ConfigureVf) -> Path:
        if not _FUNCTION.fullmatch(effect.function):
            raise NodeError(f"{_label(effect)}: that is no device", hint="this is a mistake in Rootport")
        return self._folder / f"{effect.function}.json"

    def _read(self, effect: ConfigureVf) -> _Former | None:
        path = self._path(effect)
        with os_errors_as_node_errors(f"{_label(effect)}: {path} cannot be read"):
            try:
                content = read_regular_file(path, _LIMIT) or b""
            except FileNotFoundError:
                return None
        try:
            return read(_Former, parse_json(content, max_bytes=_LIMIT))
        except ValueError as error:
            if (version := newer_version(content, _VERSION)) is not None:
                raise NodeError(
                    f"{_label(effect)}: {path} has version {version}, and this Rootport knows version {_VERSION}",
                    hint="install the Rootport that wrote it, or a later one",
                ) from None
            hint = "set the VF as it should be by hand, then remove that file"
            raise NodeError(f"{_label(effect)}: {path} cannot be read", hint=hint) from error

    def _write(self, former: _Former) -> None:
        path = self._path(former.effect)
        with os_errors_as_node_errors(f"{_label(former.effect)}: {path} cannot be written"):
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            replace_file(path, json.dumps(write(former)).encode(), mode=0o600)
            sync_folder(self._folder)

    def _forget(self, effect: ConfigureVf) -> None:
        path = self._path(effect)
        with os_errors_as_node_errors(f"{_label(effect)}: {path} cannot be removed"):
            remove_file(path)


def _label(effect: ConfigureVf) -> str:
    return f"{effect.function} ({effect.address}, VF {effect.index} of {effect.pf_address})"


def _before(effect: ConfigureVf, vf: VfFacts) -> _Former:
    """Return what is to be restored: the present values of what the claim sets."""
    asked, tag = effect.settings, vf.tag
    tags = asked.vlan is not None or asked.vlan_qos is not None
    rates = any(rate is not None for rate in (asked.min_tx_rate, asked.max_tx_rate, effect.rate_limit))
    return _Former(
        effect=effect,
        settings=VfSettings(
            vlan=tag.vlan if tags else None,
            vlan_qos=tag.qos if tags else None,
            trust=vf.trust if asked.trust is not None else None,
            spoof_check=vf.spoof_check if asked.spoof_check is not None else None,
            min_tx_rate=vf.rate.min_tx if rates else None,
            max_tx_rate=vf.rate.max_tx if rates else None,
            guid=vf.port_guid if asked.guid is not None else None,
        ),
        vlan_protocol=tag.protocol if tags else None,
        node_guid=vf.node_guid if asked.guid is not None else None,
    )


def _changes(
    to: VfSettings, now: VfFacts, *, protocol: str | None = None, node_guid: str | None = None
) -> list[list[str]]:
    """Return the arguments after ``vf NUM``, one list for each command, for what differs.

    VLAN and priority are one setting of the kernel, and so are the two rates: a half that is not asked for stays.
    """
    tag, rate = now.tag, now.rate
    commands: list[list[str]] = []
    vlan = tag.vlan if to.vlan is None else to.vlan
    qos = (0 if to.vlan == 0 else tag.qos) if to.vlan_qos is None else to.vlan_qos
    asks_tag = to.vlan is not None or to.vlan_qos is not None
    if asks_tag and (vlan, qos, protocol) != (tag.vlan, tag.qos, tag.protocol):
        commands.append(["vlan", str(vlan), "qos", str(qos), *(["proto", protocol] if protocol else [])])
    least = rate.min_tx if to.min_tx_rate is None else to.min_tx_rate
    most = rate.max_tx if to.max_tx_rate is None else to.max_tx_rate
    if (least, most) != (rate.min_tx, rate.max_tx):
        commands.append(["max_tx_rate", str(most), "min_tx_rate", str(least)])
    for word, wanted, has in (("spoofchk", to.spoof_check, now.spoof_check), ("trust", to.trust, now.trust)):
        if wanted is not None and wanted != has:
            commands.append([word, "on" if wanted else "off"])
    for word, guid, has_guid in (
        ("node_guid", node_guid or to.guid, now.node_guid),
        ("port_guid", to.guid, now.port_guid),
    ):
        if guid is not None and guid.lower() != has_guid:
            commands.append([word, guid.lower()])
    return commands
