"""Keeps this process small: limits what glibc's malloc keeps, and returns what only the start needed.

Every function does nothing where the C library is not glibc.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from driver.adapters.heap import LARGE, M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, set_malloc_options

__all__ = ["give_back", "set_up_malloc"]

_MADV_DONTNEED: Final = 4  # asm-generic/mman-common.h


def set_up_malloc() -> None:
    """Limit malloc's arenas and fix its thresholds; to be called before there are threads.

    All threads share two arenas: one for each of two dozen that allocate little is a waste. And the thresholds stay
    what they are: by itself, malloc raises them once a large block was freed (NVIDIA's hook program is read, 12 MB) and
    keeps up to twice as much from then on (mallopt(3), M_MMAP_THRESHOLD).
    """
    set_malloc_options({M_ARENA_MAX: 2, M_MMAP_THRESHOLD: LARGE, M_TRIM_THRESHOLD: LARGE})


def give_back() -> None:
    """Return to the system what starting needed; to be called once all has started.

    Compiling the modules alone, where no .pyc files are, takes 9 MB. Of the libraries' code half was
    needed for starting only: its pages are let go, and those that are needed again come back from the page cache.
    """
    gc.collect()
    gc.freeze()  # what is there now stays until the end: later collections need not look at it
    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    if trim is None:
        return
    trim(0)
    madvise = library.madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in _code():
        madvise(start, end - start, _MADV_DONTNEED)


def _code() -> Iterator[tuple[int, int]]:
    """Yield the mappings of code: of files, private, executable and not writable, so that nothing can be lost."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        # proc_pid_maps(5): address, permissions, offset, device, inode, path
        fields = line.split(maxsplit=5)
        if len(fields) > 5 and fields[1] == "r-xp" and fields[5].startswith("/"):
            start, _, end = fields[0].partition("-")
            yield int(start, 16), int(end, 16)
