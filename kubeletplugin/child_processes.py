"""Waits for programs that the plugin runs, and keeps what they print up to a limit.

The output may contain text of a container's, of any length. It is kept in files in memory: no pipe that a
process which was left behind holds open, nothing that fills, no thread to read.
"""

from __future__ import annotations

import fcntl
import os
import select
from typing import BinaryIO

__all__ = ["bounded_output", "ended", "output_bytes"]


def ended(handle: int, timeout_s: float) -> bool:
    """Wait until a process ends; return whether it has.

    Args:
        handle: A pidfd.
        timeout_s: How long; 0 to only look.
    """
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def bounded_output(limit: int) -> BinaryIO:
    """Return a file in memory for a program's output; a write beyond the limit fails.

    Args:
        limit: Bytes.
    """
    file = os.fdopen(os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+b", buffering=0)
    file.truncate(limit)
    fcntl.fcntl(file.fileno(), fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return file


def output_bytes(output: BinaryIO) -> bytes:
    """Return what was written to the file: the program and this process share one offset, which is at its end."""
    length = output.tell()
    output.seek(0)
    return output.read(length)
