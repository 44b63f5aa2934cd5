"""Unix sockets that appear complete, are never taken from a living process, and leave nothing behind.

The kubelet watches its registry folder with inotify and ignores names that start with a dot (k8s.io/kubernetes v1.36.3,
pkg/kubelet/pluginmanager/pluginwatcher). So a socket is bound under such a name, listened on, and only then renamed.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import os_errors_as_node_errors
from driver.errors import InputError, NodeError
from kubeletplugin.operation import log_line

__all__ = ["PluginSocket", "any_is_served", "is_served", "remove_stale"]

_MAX_PATH: Final = 107
"""Bytes of a socket's path: sun_path in unix(7) has 108, the last of them 0."""

_TRIAL_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSocket:
    """One socket of this instance.

    Attributes:
        path: Where clients find it; absolute.

    Raises:
        InputError: The path is not absolute or too long for a socket.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.is_absolute():
            raise InputError(f"the socket {self.path} has no absolute path", hint="give the folder's absolute path")
        length = len(os.fsencode(self.hidden))
        if length > _MAX_PATH:
            raise InputError(
                f"the socket's path {self.path} has {length - 1} bytes, at most {_MAX_PATH - 1} are possible",
                hint="use a folder with a shorter path, or a shorter instance name",
            )

    @property
    def hidden(self) -> Path:
        """The path where it is bound first; clients ignore names that start with a dot."""
        return self.path.with_name(f".{self.path.name}")

    def prepare(self) -> None:
        """Make room: an old socket of this name is replaced later, but not taken from a process that serves it.

        Raises:
            NodeError: Another process serves it.
        """
        if is_served(self.path):
            raise NodeError(
                f"another process serves the socket {self.path}",
                hint="two instances of the plugin have one name: end the other, or give this one another name",
            )

    def show(self) -> os.stat_result:
        """Let clients find the socket that is bound and listened on under the hidden name; root alone may connect.

        Returns:
            What identifies it, for :meth:`remove`.
        """
        self.hidden.chmod(0o600)
        status = self.hidden.lstat()
        self.hidden.rename(self.path)
        return status

    def remove(self, shown: os.stat_result) -> None:
        """Remove the socket, unless it is another's by now."""
        with suppress(FileNotFoundError):
            if os.path.samestat(self.path.lstat(), shown):
                self.path.unlink()


def is_served(path: Path) -> bool:
    """Whether a process listens on a socket; True also if that cannot be found out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_TRIAL_S)
        try:
            client.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def any_is_served(folder: Path, name: re.Pattern[str]) -> bool:
    """Whether any instance serves on a socket of a folder.

    Args:
        folder: Where.
        name: The whole names of the driver's sockets there.

    Raises:
        NodeError: The folder cannot be read.
    """
    with os_errors_as_node_errors(f"the sockets in {folder} cannot be looked at"):
        return any(is_served(path) for path in _sockets(folder, name))


def remove_stale(folder: Path, name: re.Pattern[str]) -> None:
    """Remove the sockets that killed instances left in a folder. To be called while no other instance starts.

    Args:
        folder: Where.
        name: The whole names of the driver's sockets there.

    Raises:
        NodeError: The folder cannot be read or changed.
    """
    with os_errors_as_node_errors(f"the sockets in {folder} cannot be cleaned up"):
        for path in _sockets(folder, name):
            if not is_served(path):
                path.unlink(missing_ok=True)
                _LOG.info("%s", log_line(event="stale-socket-removed", path=path))


def _sockets(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if name.fullmatch(path.name.removeprefix(".")):
            with suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    yield path
