"""Reads files, folders and links below one folder that stands for a host's ``/``, and nothing outside it.

Rootport reads ``/sys`` and ``/proc`` only through a :class:`HostRoot` that is passed in, so that the same code reads
the running host, a host mounted into a container, an unpacked archive, or a tree that a test wrote.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from driver.errors import InputError, NodeError

__all__ = ["HostRoot"]

_READ_LIMIT: Final = 64 * 1024
# Linux's own limits: MAXSYMLINKS (include/linux/namei.h) and PATH_MAX (include/uapi/linux/limits.h). The second bounds
# the work that a hostile chain of folders or links can cause.
_MAX_LINKS: Final = 40
_MAX_PATH: Final = 4096
# One PCI segment has 65,536 functions; no folder of /sys or /proc that is read here comes near it.
_MAX_ENTRIES: Final = 65_536
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class HostRoot:
    """A folder that stands for a host's ``/``; nothing outside it can be reached through this object.

    Paths are strings relative to the root, such as ``sys/bus/pci/devices``. They are resolved component by component:
    an absolute link starts again at this root, as in a chroot; what lies behind a link that leaves the root, leads
    nowhere or in a circle does not exist. Sockets, pipes and device nodes are never opened (that may block, or act:
    ``/dev/watchdog``).

    Folders once found to be no links are remembered, which makes thousands of reads in one tree cheap. So take a
    :meth:`fresh` one for each scan. This guards against a tree's content, not against an attacker who rearranges the
    tree while it is read.

    Args:
        path: The folder; ``/`` is the running host.

    Raises:
        InputError: ``path`` is no folder.
    """

    __slots__ = ("_base", "_folders", "path")

    def __init__(self, path: Path | str = "/") -> None:
        self.path = Path(path)
        try:
            is_folder = stat.S_ISDIR(self.path.stat().st_mode)
        except FileNotFoundError:
            raise InputError(f"{str(path)!r} does not exist", hint="give the folder that holds sys") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"{str(path)!r} cannot be opened: {reason}", hint="give a folder you may read") from None
        if not is_folder:
            raise InputError(
                f"{str(path)!r} is not a folder",
                hint="unpack an archive first, for example with tar -xf ARCHIVE -C FOLDER, and give that folder",
            )
        self._base = os.path.realpath(self.path).rstrip("/")
        self._folders = {""}

    def fresh(self) -> HostRoot:
        """Return the same root with nothing remembered."""
        # Without the checks of the path, which was right once: every pod's start takes some.
        other = object.__new__(HostRoot)
        other.path, other._base, other._folders = self.path, self._base, {""}
        return other

    def resolve(self, path: str) -> str | None:
        """Return the real path relative to the root, without links and dots; None if nothing is there."""
        found = self._find_or_none(path)
        return found[0] if found else None

    def is_folder(self, path: str) -> bool:
        """Whether ``path`` leads to a folder."""
        found = self._find_or_none(path)
        return found is not None and stat.S_ISDIR(found[1])

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted; empty if there is no such folder.

        Names that are not UTF-8 are left out: the kernel makes none in /sys, and they could not be printed.

        Raises:
            NodeError: The folder exists and cannot be listed. To take it for an empty one would make devices vanish.
        """
        try:
            found = self._find(path)
            if found is None or not stat.S_ISDIR(found[1]):
                return ()
            with os.scandir(self._full(found[0])) as entries:
                names = [entry.name for entry in islice(entries, _MAX_ENTRIES + 1)]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            reason = f"{self._full(path)!r} cannot be listed: {error.strerror}"
            raise NodeError(reason, hint="check who may read it") from error
        if len(names) > _MAX_ENTRIES:
            raise NodeError(f"{self._full(path)!r} has more than {_MAX_ENTRIES} entries", hint="is this a host's /sys?")
        return tuple(sorted(name for name in names if _is_utf8(name)))

    def read_bytes(self, path: str, limit: int = _READ_LIMIT) -> bytes | None:
        """Return the first ``limit`` bytes of a regular file; None if there is none or it cannot be read.

        Many attributes in /sys return an error instead of a value (``phys_port_name`` of most interfaces): that is None
        as well.
        """
        found = self._find_or_none(path)
        if found is None or not stat.S_ISREG(found[1]):
            return None
        try:
            # The file may have been replaced since it was examined: follow no link, wait for no pipe.
            file = os.open(self._full(found[0]), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = b""
            # Files in /proc give at most a page at a time; at the limit nothing is left to ask for, which ends it too.
            while chunk := os.read(file, limit - len(content)):
                content += chunk
        except OSError:
            return None
        finally:
            os.close(file)
        return content

    def read(self, path: str, limit: int = _READ_LIMIT) -> str | None:
        """Return the text of a file as :meth:`read_bytes` reads it, without white space around it."""
        content = self.read_bytes(path, limit)
        return None if content is None else content.decode("utf-8", errors="replace").strip()

    def _full(self, real: str) -> str:
        return f"{self._base}/{real}"

    def _find_or_none(self, path: str) -> tuple[str, int] | None:
        try:
            return self._find(path)
        except OSError:
            return None

    def _find(self, path: str) -> tuple[str, int] | None:
        """Return the resolved path and its ``st_mode``; OSError if a folder on the way may not be searched."""
        real, _, last = path.rpartition("/")
        if real in self._folders and last not in ("", ".", ".."):
            pending = [last]
        else:
            real, pending = "", path.split("/")[::-1]
        links = 0
        mode = stat.S_IFDIR
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not real:
                    return None
                real, mode = real.rpartition("/")[0], stat.S_IFDIR
                continue
            step = f"{real}/{part}" if real else part
            if step in self._folders:
                real, mode = step, stat.S_IFDIR
                continue
            try:
                mode = os.lstat(self._full(step)).st_mode
                target = os.readlink(self._full(step)) if stat.S_ISLNK(mode) else None  # noqa: PTH115 - paths are text here
            except OSError as error:
                if error.errno in _NOT_THERE:
                    return None
                raise
            if target is None:
                if stat.S_ISDIR(mode):
                    self._folders.add(step)
                real = step
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            real, mode = "" if target.startswith("/") else real, stat.S_IFDIR
            pending.extend(reversed(target.split("/")))
        return (real, mode) if len(real) < _MAX_PATH else None


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
