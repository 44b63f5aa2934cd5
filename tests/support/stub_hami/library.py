"""Builds the stub of HAMi-core's library with the machine's C compiler."""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.support.needed_tools import require_tool

__all__ = ["BROKEN", "build", "build_needing"]

_SOURCE: Final = Path(__file__).with_name("stub_vgpu.c")
_OTHER_MACHINE: Final = struct.pack("<H", 62), struct.pack("<H", 183)


def build(*macros: str) -> bytes:
    """Return the library.

    Args:
        macros: What it does when it is loaded: ``HANGS``, ``CRASHES``, ``EXITS``, ``EATS_MEMORY``;
            ``FORKS``: it leaves a process of a session of its own; ``ESCAPES``: it hangs besides; ``LAZY``: it has a
            function that calls what the C library does not have.
    """
    return _built(macros, ())


def build_needing(folder: Path) -> bytes:
    """Return the library as it is linked with CUDA's, and put a ``libcuda.so.1`` for it into a folder."""
    library = folder / "libcuda.so.1"
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=b"int cuInit(unsigned int flags) { return flags; }", check=True, timeout=60)
    return _built(("NEEDS_CUDA",), ("-Wl,--no-as-needed", str(library)))


@functools.cache
def _built(macros: tuple[str, ...], libraries: tuple[str, ...]) -> bytes:
    require_tool("cc")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "libvgpu.so")
        defined = [f"-D{macro}" for macro in macros]
        command = ["cc", "-shared", "-fPIC", *defined, f"-Wl,-soname,{path.name}", "-o", str(path), str(_SOURCE)]
        subprocess.run([*command, *libraries], check=True, timeout=60)
        return path.read_bytes()


def _for_another_machine() -> bytes:
    library = build()
    here, other = _OTHER_MACHINE if library[18:20] == _OTHER_MACHINE[0] else reversed(_OTHER_MACHINE)
    return library[:18] + library[18:].replace(here, other, 1)


def _program() -> bytes:
    library = build()
    return library[:16] + struct.pack("<H", 2) + library[18:]


def _without_names() -> bytes:
    return build().replace(b"CUDA_DEVICE_SM_LIMIT", b"CUDA_DEVICE_XX_LIMIT")


BROKEN: Final[Mapping[str, tuple[Callable[[], bytes], str]]] = {
    "empty": (lambda: b"", "is empty, is no file, or cannot be read"),
    "text": (lambda: b"#!/bin/sh\n", "is not an ELF file"),
    "header-cut-off": (lambda: build()[:40], "is cut off: it ends within its ELF header"),
    "program-headers-cut-off": (lambda: build()[:80], "is cut off: its program headers are not in it"),
    "cut-off": (lambda: build()[:-6000], "is cut off: it has"),
    "other-machine": (_for_another_machine, "is for "),
    "32-bit": (lambda: build()[:4] + b"\1" + build()[5:], "is no 64-bit"),
    "program": (_program, "is an ELF file, but no shared library"),
    "another-library": (_without_names, "is not HAMi-core: it does not know CUDA_DEVICE_SM_LIMIT"),
    "hangs": (lambda: build("HANGS"), "has not finished loading after"),
    "crashes": (lambda: build("CRASHES"), "does not load: signal 6"),
    "exits": (lambda: build("EXITS"), "does not load: libvgpu: no licence"),
    "eats-memory": (lambda: build("EATS_MEMORY"), "does not load: signal 6"),
}
"""Libraries that must not be taken for HAMi-core, and what is said of each."""
