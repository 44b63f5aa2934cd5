"""Real parts, in the figures that NVML gives for them.

Sources: names, memory sizes, profile ids, multiprocessors, memory and engines (CE, DEC, ENC, JPEG, OFA) of MIG profiles
as ``nvidia-smi mig -lgip`` prints them, placements as ``nvidia-smi mig -lgipp`` does (NVIDIA Multi-Instance GPU User
Guide, "Getting Started with MIG" and "Supported MIG Profiles"; placements are the same on H100 and A100); GPU
addresses as on a DGX H100, those of its NVSwitches are made up; GB10 as read on a DGX Spark
(github.com/XuehaiPan/nvitop/pull/208: address 0000000F:01:00.0, both memory calls "Not Supported"). Readings are made
up; A100 and H100 remap rows of memory and retire no pages (NVIDIA GPU Memory Error Management). The A100 has a driver
that tells no recovery action (before branch 565).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.support.stub_nvml.machine import Link, LinkEnd, Machine, StubGpu, StubProfile

__all__ = ["A100_40GB", "GB10", "H100_80GB", "L4", "a100_pair", "dgx_h100"]

# nvml.h: NVML_DEVICE_ARCH_*
_AMPERE, _ADA, _HOPPER, _BLACKWELL = 7, 8, 9, 10

_ONE: Final = tuple((start, 1) for start in range(7))
_PAIR: Final = ((0, 2), (2, 2), (4, 2))
_HALF: Final = ((0, 4), (4, 4))

# An idle GPU; 27: single-bit and double-bit ECC errors, Xids, clocks.
_IDLE: Final[dict[str, int | str]] = {
    "temperature": 34,
    "power": 71000,
    "utilization": 0,
    "memory_used": 0,
    "clock_reasons": 1,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remapped_rows": "0 0 0 0",
    "events": 27,
}

H100_80GB: Final = StubGpu(
    name="NVIDIA H100 80GB HBM3",
    memory=85520809984,
    architecture=_HOPPER,
    cuda=(9, 0),
    ecc=(1, 1),
    mig=(0, 0),
    readings={**_IDLE, "recovery_action": 0},
    profiles=(
        StubProfile(0, 19, "1g.10gb", 1, 7, 16, 9984, _ONE, (1, 1, 0, 1, 0)),
        StubProfile(1, 14, "2g.20gb", 2, 3, 32, 20096, _PAIR, (2, 2, 0, 2, 0)),
        StubProfile(2, 9, "3g.40gb", 3, 2, 60, 40448, _HALF, (3, 3, 0, 3, 0)),
        StubProfile(3, 5, "4g.40gb", 4, 1, 64, 40448, ((0, 4),), (4, 4, 0, 4, 0)),
        StubProfile(4, 0, "7g.80gb", 7, 1, 132, 81152, ((0, 8),), (8, 7, 0, 7, 1)),
        StubProfile(7, 20, "1g.10gb+me", 1, 1, 16, 9984, _ONE, (1, 1, 0, 1, 1)),
        StubProfile(9, 15, "1g.20gb", 1, 4, 26, 20096, (*_PAIR, (6, 2)), (1, 1, 0, 1, 0)),
    ),
)

A100_40GB: Final = StubGpu(
    name="NVIDIA A100-SXM4-40GB",
    memory=42949672960,
    architecture=_AMPERE,
    cuda=(8, 0),
    ecc=(1, 1),
    mig=(0, 0),
    readings=_IDLE,
    profiles=(
        StubProfile(0, 19, "1g.5gb", 1, 7, 14, 4864, _ONE, (1, 0, 0, 0, 0)),
        StubProfile(1, 14, "2g.10gb", 2, 3, 28, 9856, _PAIR, (2, 1, 0, 0, 0)),
        StubProfile(2, 9, "3g.20gb", 3, 2, 42, 19968, _HALF, (3, 2, 0, 0, 0)),
        StubProfile(3, 5, "4g.20gb", 4, 1, 56, 19968, ((0, 4),), (4, 2, 0, 0, 0)),
        StubProfile(4, 0, "7g.40gb", 7, 1, 98, 40192, ((0, 8),), (7, 5, 0, 1, 1)),
        StubProfile(7, 20, "1g.5gb+me", 1, 1, 14, 4864, _ONE, (1, 1, 0, 1, 1)),
        StubProfile(9, 15, "1g.10gb", 1, 4, 14, 9856, (*_PAIR, (6, 2)), (1, 1, 0, 0, 0)),
    ),
)

L4: Final = StubGpu(
    name="NVIDIA L4", pci="00000000:31:00.0", memory=24152899584, architecture=_ADA, cuda=(8, 9), ecc=(1, 1)
)

GB10: Final = StubGpu(name="NVIDIA GB10", pci="0000000F:01:00.0", architecture=_BLACKWELL, cuda=(12, 1))

_DGX_H100_GPUS: Final = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
# 18 links a GPU on four NVSwitches: 5 + 4 + 4 + 5.
_DGX_H100_LINKS: Final = tuple(
    Link(LinkEnd.SWITCH, f"00000000:{bus}:00.0")
    for bus, count in (("07", 5), ("08", 4), ("09", 4), ("0A", 5))
    for _ in range(count)
)


def dgx_h100() -> Machine:
    """Eight H100 80GB, all on the same four NVSwitches."""
    gpu = replace(H100_80GB, links=_DGX_H100_LINKS)
    return Machine(gpus=tuple(gpu.at(n, f"00000000:{bus}:00.0") for n, bus in enumerate(_DGX_H100_GPUS)))


def a100_pair() -> Machine:
    """Two A100 40GB joined directly by twelve NVLinks, and one link of the first that is down."""
    first, second = "00000000:3B:00.0", "00000000:86:00.0"
    to_second: tuple[Link | None, ...] = tuple(Link(LinkEnd.GPU, second) for _ in range(12))
    to_first = tuple(Link(LinkEnd.GPU, first) for _ in range(12))
    return Machine(
        gpus=(
            replace(A100_40GB, links=(*to_second, None)).at(0, first),
            replace(A100_40GB, links=to_first).at(1, second),
        )
    )
