"""Reads whether bytes are a shared library that this machine can run: its ELF header and program headers.

Source of the layout: elf(5), and the System V ABI, "Object Files". All machines that Rootport runs on are 64-bit
little-endian ones.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

__all__ = ["elf_problem", "own_machine"]

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_MAGIC_64_LITTLE: Final = b"\x7fELF\x02\x01"
_SHARED_OBJECT: Final = 3  # ET_DYN
_LOAD: Final = 1  # PT_LOAD
_DYNAMIC: Final = 2  # PT_DYNAMIC
_NAMES: Final = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def own_machine() -> int:
    """Return ELF's number of this machine's architecture: that of the program that runs."""
    with Path("/proc/self/exe").open("rb") as program:
        return _machine(program.read(_HEADER.size))


def elf_problem(content: bytes, machine: int) -> str | None:
    """Return why a file is no shared library for a machine, for a message that names the file; None if it is one.

    Args:
        content: All of the file.
        machine: ELF's number of the architecture (:func:`own_machine`).
    """
    if not content.startswith(b"\x7fELF"):
        return "is not an ELF file"
    if len(content) < _HEADER.size:
        return "is cut off: it ends within its ELF header"
    if not content.startswith(_MAGIC_64_LITTLE):
        return "is no 64-bit little-endian ELF file, as this machine's are"
    if _machine(content) != machine:
        return f"is for {_name(_machine(content))}, and this machine is {_name(machine)}"
    _, type_, _, _, _, headers_at, _, _, _, header_size, count, _, _, _ = _HEADER.unpack_from(content)
    if type_ != _SHARED_OBJECT:
        return "is an ELF file, but no shared library"
    if header_size != _PROGRAM_HEADER.size or headers_at + count * header_size > len(content):
        return "is cut off: its program headers are not in it"
    headers = [_PROGRAM_HEADER.unpack_from(content, headers_at + index * header_size) for index in range(count)]
    if any(kind in (_LOAD, _DYNAMIC) and offset + size > len(content) for kind, _, offset, _, _, size, _, _ in headers):
        return f"is cut off: it has {len(content)} bytes, and its segments have more"
    if not any(kind == _DYNAMIC for kind, *_ in headers):
        return "is an ELF file, but no shared library"
    return None


def _machine(content: bytes) -> int:
    return int.from_bytes(content[18:20], "little")


def _name(machine: int) -> str:
    return _NAMES.get(machine, f"architecture {machine}")
