"""Sets how the C library's heap keeps memory that was freed, and how often Python looks for garbage."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping
from typing import Final

__all__ = [
    "LARGE",
    "M_ARENA_MAX",
    "M_MMAP_THRESHOLD",
    "M_TRIM_THRESHOLD",
    "collect_rarely",
    "return_large_blocks",
    "set_malloc_options",
]

# malloc.h of glibc
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8

_NEW_OBJECTS: Final = 50_000

LARGE: Final = 128 * 1024
"""The bytes that glibc starts both thresholds with."""


def set_malloc_options(options: Mapping[int, int]) -> None:
    """Set options of glibc's malloc (mallopt(3)), in their order; does nothing with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)


def collect_rarely() -> None:
    """Have Python look for cycles of garbage after 50,000 new objects, not after 700 as by default.

    To read one node's slices makes some ten thousand, none of them in a cycle. By default a third of the processor time
    of a start goes into looking at them.
    """
    gc.set_threshold(_NEW_OBJECTS)


def return_large_blocks() -> None:
    """Have blocks of 128 KiB and more returned to the system as soon as they are freed.

    By default glibc takes the first large block that is freed (a page of a list, some megabytes) as a sign that more of
    that size will come, and keeps such blocks for each thread that had one. No other C library does so; with those
    nothing is changed.
    """
    set_malloc_options({M_MMAP_THRESHOLD: LARGE})
