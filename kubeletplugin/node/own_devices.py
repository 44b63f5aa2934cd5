"""NVIDIA's device nodes in this process's own ``/dev``, which a container gets once, when it is made.

A driver that is loaded later makes its nodes in the host's ``/dev``. NVML opens those of the container, where there are
none until the container is made anew.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["HiddenDevice", "hidden_device"]

_NODE: Final = re.compile(r"nvidia(?:ctl|[0-9]{1,4})", re.ASCII)
_MARGIN_S: Final = 3.0
"""Between a container's ``/dev`` and its first process. The plugin waits longer than this before it ends itself, so
that the next process does not take the same node for a newer one."""


@dataclass(frozen=True, slots=True)
class HiddenDevice:
    """A device node that the host has and this process's ``/dev`` has not.

    Attributes:
        path: On the host.
        newer_than_process: Whether it was made after this process was started: a new container would have it.
    """

    path: str
    newer_than_process: bool


def _process_started() -> float:
    """Return when this process was started, in seconds since the epoch (proc(5): field 22 of stat, since the boot)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def hidden_device(host: Path, own: Path, *, started: Callable[[], float] = _process_started) -> HiddenDevice | None:
    """Return the newest node of NVIDIA's driver that the host has and this process has not; None if there is none.

    Args:
        host: Where the host's ``/`` is seen.
        own: This process's ``/``.
        started: When this process was started, in seconds since the epoch.
    """
    hidden: dict[str, float] = {}
    with suppress(OSError), os.scandir(host / "dev") as entries:
        for entry in entries:
            if _NODE.fullmatch(entry.name) and not os.path.lexists(own / "dev" / entry.name):
                hidden[entry.name] = entry.stat(follow_symlinks=False).st_ctime
    if not hidden:
        return None
    name = max(sorted(hidden), key=lambda name: hidden[name])
    # A node from the future shows that the clock was set back: its time means nothing.
    newer = started() - _MARGIN_S < hidden[name] <= time.time()
    return HiddenDevice(path=f"/dev/{name}", newer_than_process=newer)
