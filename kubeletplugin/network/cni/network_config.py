"""Puts ``rootport-cni`` on the node: the program into the runtime's folder, its name behind the node's main network.

Runtimes take the first file by name of those ending in .conf, .conflist and .json (containerd/go-cni v1.1.13, opts.go;
CRI-O likewise). A network's own installer may write its file anew at any time, so this is checked again and again.
Nothing is changed that is not understood: with its network's file broken a node starts no pod at all.
"""

from __future__ import annotations

import json
import logging
import math
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import (
    entries,
    file_holds,
    file_signature,
    os_errors_as_node_errors,
    read_regular_file,
    replace_file,
    sync_folder,
)
from driver.bounded_json import JsonError, parse_json
from driver.errors import InputError, NodeError
from kubeletplugin.operation import log_line

__all__ = ["PROGRAM", "NetworkConfig"]

PROGRAM: Final = "rootport-cni"
"""The program's name in the runtime's folder, and the ``type`` of its entry in a list of plugins."""

_LOG: Final = logging.getLogger(__name__)
_SUFFIXES: Final = (".conf", ".conflist", ".json")
_LIST: Final = ".conflist"
_VERSIONS: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")  # what shim/rootport-cni.c tells on VERSION
_MAX_CONFIG: Final = 1024 * 1024
_MAX_PROGRAM: Final = 16 * 1024 * 1024
_TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfigList:
    """A network's file as it was read.

    Attributes:
        path: The file.
        signature: Changes when somebody writes it.
        mode: Its permissions.
        content: The whole of it; its ``plugins`` are ``plugins``.
        plugins: The chain.
    """

    path: Path
    signature: tuple[int, ...] | None
    mode: int
    content: dict[str, object]
    plugins: list[dict[str, object]]

    @property
    def has_ours(self) -> bool:
        return any(plugin.get("type") == PROGRAM for plugin in self.plugins)


class NetworkConfig:
    """The node's network configuration.

    Args:
        conf_dir: The runtime's folder of network configurations, such as ``/etc/cni/net.d``.
        bin_dir: Its folder of CNI programs, such as ``/opt/cni/bin``.
        program: The program in this image.
        file_name: The file to chain in; None for the one that the runtime takes. For Multus, whose own file comes
            first: the file of the network that it calls.

    Raises:
        InputError: ``file_name`` is no plain name that ends in .conflist.
    """

    def __init__(self, conf_dir: Path, *, bin_dir: Path, program: Path, file_name: str | None = None) -> None:
        if file_name is not None and (Path(file_name).name != file_name or not file_name.endswith(_LIST)):
            raise InputError(f"the network's file {file_name!r} is no plain file name that ends in {_LIST}")
        self._conf_dir = conf_dir
        self._installed = bin_dir / PROGRAM
        self._program = program
        self._file_name = file_name

    def ensure(self) -> None:
        """Install the program and chain it. Writes only what differs.

        Raises:
            NodeError: Something is in the way, or is not understood: which file, why, and what helps.
        """
        self._install()  # first: a list that names a missing program stops every pod of the node
        for _ in range(_TRIES):
            found = self._main()
            if found.has_ours:
                return
            chained = {**found.content, "plugins": [*found.plugins, {"type": PROGRAM}]}
            if _replaced(found, chained):
                _LOG.info("%s", log_line(event="cni-chained", path=found.path))
                return
        raise _keeps_changing(self._conf_dir)

    def is_chained(self) -> bool:
        """Whether pods get their interfaces: the main network calls the program, and the program is there."""
        try:
            return self._main().has_ours and self._installed.is_file()
        except (NodeError, OSError):
            return False

    def _install(self) -> None:
        with os_errors_as_node_errors(f"the program {self._program} of this image cannot be read"):
            content = read_regular_file(self._program, _MAX_PROGRAM)
        if not content:
            raise NodeError(f"{self._program} of this image is no program", hint="use Rootport's own image")
        with os_errors_as_node_errors(f"the program {self._installed} cannot be installed"):
            if file_holds(self._installed, content) and self._installed.stat().st_mode & 0o111 == 0o111:
                return
            replace_file(self._installed, content, mode=0o755)
            sync_folder(self._installed.parent)
        _LOG.info("%s", log_line(event="cni-program-installed", path=self._installed))

    def _main(self) -> _ConfigList:
        if self._file_name is not None:
            return _read(self._conf_dir / self._file_name)
        files = self._files()
        if not files:
            raise NodeError(
                f"the folder {self._conf_dir} has no network configuration yet",
                hint="install the cluster's network, or name the folder that the container runtime reads",
            )
        if not files[0].name.endswith(_LIST):
            raise NodeError(
                f"the node's network configuration {files[0]} is a single plugin, and {PROGRAM} can only be chained "
                f"in a list ({_LIST})",
                hint="write the node's network as a list of plugins; on nodes with Multus use its networks instead",
            )
        return _read(files[0])

    def _files(self) -> list[Path]:
        with os_errors_as_node_errors(f"the folder {self._conf_dir} cannot be read"):
            return sorted(path for path in entries(self._conf_dir) if path.suffix in _SUFFIXES)


def _bytes_of(path: Path) -> bytes | None:
    """Return a file's content; None if it is gone or no regular file."""
    try:
        return read_regular_file(path, _MAX_CONFIG + 1)
    except FileNotFoundError:
        return None


def _read(path: Path) -> _ConfigList:
    with os_errors_as_node_errors(f"the network configuration {path} cannot be read"):
        signature = file_signature(path)
        raw = _bytes_of(path)
        mode = stat.S_IMODE(path.lstat().st_mode) if raw is not None else 0
    if raw is None:
        raise _not_understood(path, "it is no regular file")
    if len(raw) > _MAX_CONFIG:
        raise _not_understood(path, "it has more than 1 MiB")
    try:
        parse_json(raw, max_bytes=_MAX_CONFIG)  # what is within its bounds is read again, with rules of our own
        content: object = json.loads(
            raw, object_pairs_hook=_without_doubles, parse_float=_finite, parse_constant=_finite
        )
    except JsonError as error:
        raise _not_understood(path, f"it is {error}") from error
    except ValueError as error:
        raise _not_understood(path, f"it is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise _not_understood(path, "it is no JSON object")
    listed = content.get("plugins")
    plugins = [plugin for plugin in listed if isinstance(plugin, dict)] if isinstance(listed, list) else []
    if not plugins or plugins != listed:
        raise _not_understood(path, "it has no list of plugins")
    version = content.get("cniVersion")
    if version not in _VERSIONS:
        raise _not_understood(path, f"its cniVersion is {version!r}, not one of {', '.join(_VERSIONS)}")
    return _ConfigList(path=path, signature=signature, mode=mode, content=content, plugins=plugins)


def _replaced(former: _ConfigList, content: dict[str, object]) -> bool:
    """Write a file anew; False where somebody else has written it since it was read."""
    text = json.dumps(content, indent=2) + "\n"
    with os_errors_as_node_errors(f"the network configuration {former.path} cannot be written"):
        if file_signature(former.path) != former.signature:
            return False
        replace_file(former.path, text.encode(), mode=former.mode)
        sync_folder(former.path.parent)
    return True


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one key twice")
    return found


def _finite(text: str) -> float:
    """Return a number; refuse one that could not be written again, and NaN and Infinity, which are no JSON."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number of JSON, or too large")
    return number


def _not_understood(path: Path, why: str) -> NodeError:
    return NodeError(
        f"the node's network configuration {path} is left as it is: {why}",
        hint=f"its owner may be writing it; else repair it, or chain {PROGRAM} in it by hand",
    )


def _keeps_changing(folder: Path) -> NodeError:
    return NodeError(f"a network configuration in {folder} changes all the time", hint="it is tried again")
