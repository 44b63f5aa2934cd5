"""``rootport-cni`` as the image has it: static, so that every node can run it, and hardened by compiler and linker."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.cni_program import build_cni_program
from tests.support.paths import REPO

pytestmark = pytest.mark.needs_cc

# Of elf.h
_ET_DYN = 3
_PT_DYNAMIC, _PT_INTERP, _PT_GNU_STACK, _PT_GNU_RELRO = 2, 3, 0x6474E551, 0x6474E552
_PF_X = 1
_DT_FLAGS, _DT_FLAGS_1 = 30, 0x6FFFFFFB
_DF_BIND_NOW, _DF_1_NOW, _DF_1_PIE = 8, 1, 0x08000000


@pytest.fixture(scope="module")
def program(require_tool: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_tool("cc")
    folder = tmp_path_factory.mktemp("program")
    return build_cni_program(folder / "rootport-cni", state=folder / "state")


def headers(content: bytes) -> dict[int, tuple[int, bytes]]:
    """The program headers by type: flags and content. Of a 64-bit, little-endian file."""
    assert content[:6] == b"\x7fELF\x02\x01"
    (offset,) = struct.unpack_from("<Q", content, 32)
    size, number = struct.unpack_from("<HH", content, 54)
    found = {}
    for index in range(number):
        kind, flags, begin, _, _, length = struct.unpack_from("<IIQQQQ", content, offset + index * size)
        found[kind] = (flags, content[begin : begin + length])
    return found


def dynamic(content: bytes) -> Iterator[tuple[int, int]]:
    yield from struct.iter_unpack("<QQ", content)


def test_the_program_needs_no_library_and_is_hardened(program: Path) -> None:
    content = program.read_bytes()
    found = headers(content)
    assert struct.unpack_from("<H", content, 16) == (_ET_DYN,), "its addresses are random"
    assert _PT_INTERP not in found, "no loader is needed"
    assert _PT_GNU_RELRO in found
    assert not found[_PT_GNU_STACK][0] & _PF_X
    flags = dict(dynamic(found[_PT_DYNAMIC][1]))
    assert flags[_DT_FLAGS] & _DF_BIND_NOW
    assert flags[_DT_FLAGS_1] & _DF_1_NOW
    assert flags[_DT_FLAGS_1] & _DF_1_PIE


def test_the_program_runs(program: Path) -> None:
    command = {"CNI_COMMAND": "VERSION"}
    said = subprocess.run([program], env=command, input=b"{}", capture_output=True, check=True).stdout
    assert b'"supportedVersions"' in said


def test_the_image_is_built_with_the_same_flags() -> None:
    dockerfile = (REPO / "Dockerfile").read_text()
    assert "RUN gcc @/shim/cflags -o /rootport-cni /shim/*.c\n" in dockerfile
