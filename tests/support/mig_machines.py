"""GPUs with MIG as NVML describes them (NVIDIA MIG User Guide)."""

from __future__ import annotations

from typing import Any

from driver.model.devices import Gpu, GpuLink, LinkKind, MigInstance, MigPlacement, MigProfile, MigSupport
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath
from tests.support.machines import address, gpu

MIB = 1 << 20


def profile(name: str, number: int, mib: int, instances: int, places: str, **engines: int) -> MigProfile:
    """``places``: placements as start:size, in memory slices."""
    pairs = [place.split(":") for place in places.split()]
    engines.setdefault("compute_slices", int(name[0]))
    return MigProfile(
        name=name,
        profile_id=number,
        memory_bytes=mib * MIB,
        max_instances=instances,
        placements=tuple(MigPlacement(start=int(start), size=int(size)) for start, size in pairs),
        **engines,
    )


_SEVEN = "0:1 1:1 2:1 3:1 4:1 5:1 6:1"

H100 = (
    profile("1g.10gb", 19, 9984, 7, _SEVEN, multiprocessors=16, copy_engines=1, decoders=1, jpeg_engines=1),
    profile("1g.10gb+me", 20, 9984, 1, _SEVEN, multiprocessors=16, copy_engines=1, decoders=1, jpeg_engines=1,
            ofa_engines=1),
    profile("1g.20gb", 15, 20096, 4, "0:2 2:2 4:2 6:2", multiprocessors=26, copy_engines=1, decoders=1, jpeg_engines=1),
    profile("2g.20gb", 14, 20096, 3, "0:2 2:2 4:2", multiprocessors=32, copy_engines=2, decoders=2, jpeg_engines=2),
    profile("3g.40gb", 9, 40448, 2, "0:4 4:4", multiprocessors=60, copy_engines=3, decoders=3, jpeg_engines=3),
    profile("4g.40gb", 5, 40448, 1, "0:4", multiprocessors=64, copy_engines=4, decoders=4, jpeg_engines=4),
    profile("7g.80gb", 0, 81152, 1, "0:8", multiprocessors=132, copy_engines=8, decoders=7, jpeg_engines=7,
            ofa_engines=1),
)  # fmt: skip
A100 = (
    profile("1g.5gb", 19, 4864, 7, _SEVEN, multiprocessors=14, copy_engines=1),
    profile("1g.5gb+me", 20, 4864, 1, _SEVEN, multiprocessors=14, copy_engines=1, decoders=1, jpeg_engines=1,
            ofa_engines=1),
    profile("1g.10gb", 15, 9856, 4, "0:2 2:2 4:2 6:2", multiprocessors=14, copy_engines=1, decoders=1),
    profile("2g.10gb", 14, 9856, 3, "0:2 2:2 4:2", multiprocessors=28, copy_engines=2, decoders=1),
    profile("3g.20gb", 9, 19968, 2, "0:4 4:4", multiprocessors=42, copy_engines=3, decoders=2),
    profile("4g.20gb", 5, 19968, 1, "0:4", multiprocessors=56, copy_engines=4, decoders=2),
    profile("7g.40gb", 0, 40192, 1, "0:8", multiprocessors=98, copy_engines=7, decoders=5, jpeg_engines=1,
            ofa_engines=1),
)  # fmt: skip
A30 = (
    profile("1g.6gb", 14, 5952, 4, "0:1 1:1 2:1 3:1", multiprocessors=14, copy_engines=1),
    profile("1g.6gb+me", 21, 5952, 1, "0:1 1:1 2:1 3:1", multiprocessors=14, copy_engines=1, decoders=1, jpeg_engines=1,
            ofa_engines=1),
    profile("2g.12gb", 5, 12032, 2, "0:2 2:2", multiprocessors=28, copy_engines=2, decoders=2),
    profile("4g.24gb", 0, 24125, 1, "0:4", multiprocessors=56, copy_engines=4, decoders=4, jpeg_engines=1,
            ofa_engines=1),
)  # fmt: skip


def instance(number: int, start: int, size: int) -> MigInstance:
    """A MIG device that an administrator made."""
    return MigInstance(
        profile_id=number,
        placement=MigPlacement(start=start, size=size),
        gpu_instance=start + 1,
        compute_instance=0,
        uuid=f"MIG-{number}-{start}",
        gpu_instance_minor=10 + start,
        compute_instance_minor=30 + start,
    )


def mig_gpu(bus: str, profiles: tuple[MigProfile, ...] = H100, *instances: MigInstance, **fields: Any) -> Gpu:
    """A GPU with MIG whose mode can be switched; it is on where there are instances."""
    enabled = fields.pop("enabled", bool(instances))
    support = MigSupport(enabled=enabled, profiles=profiles, instances=instances)
    defaults = {"memory_bytes": 81559 * MIB, "cuda_compute_capability": "9.0", "mig": support}
    return gpu(bus, **(defaults | fields))


def dgx_h100(name: str = "gpu-node-a") -> Inventory:
    """Eight H100s, each under a switch of its own, with all that NVML and sysfs tell of them."""
    gpus = tuple(
        Gpu(
            address=address(f"{bus:02x}"),
            pcie=PciePath(
                root=f"pci0000:{bus:02x}",
                root_port=PciAddress(f"0000:{bus:02x}:01.0"),
                switches=(PciAddress(f"0000:{bus + 1:02x}:00.0"),),
                numa_node=index // 4,
            ),
            index=index,
            minor=index,
            uuid=f"GPU-0b2a8c7e-55f1-4b7e-8f2f-2f0d0c9f4c1{index}",
            model="NVIDIA H100 80GB HBM3",
            memory_bytes=81559 * MIB,
            architecture="Hopper",
            cuda_compute_capability="9.0",
            driver_version="580.159.03",
            cuda_driver_version="13.0",
            mig=MigSupport(enabled=False, profiles=H100),
            links=(GpuLink(kind=LinkKind.NVLINK, peer=None, count=18),),
        )
        for index, bus in enumerate(range(0x10, 0x90, 0x10))
    )
    return Inventory(node=name, source=InventorySource.LIVE, gpus=gpus)
