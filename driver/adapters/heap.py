"""Sets how the C library's heap keeps memory that was freed."""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["return_large_blocks"]

_M_MMAP_THRESHOLD: Final = -3  # malloc.h of glibc
_LARGE: Final = 128 * 1024  # bytes; what glibc begins with


def return_large_blocks() -> None:
    """Have blocks of 128 KiB and more returned to the system as soon as they are freed.

    By default glibc takes the first large block that is freed (a page of a list, some megabytes) as a sign that more of
    that size will come, and keeps such blocks for each thread that had one. No other C library does so; with those
    nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
