"""Discovers the GPUs of this machine with NVIDIA's management library (NVML), through its binding ``pynvml``.

It reads and never changes a GPU's state. Each GPU and each fact is read on its own: a GPU that has fallen off the bus,
or a call that a part does not support, costs that GPU or that fact, with a note, never its neighbours.

Source of every call, number and error: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import pynvml

from driver.adapters.host import HostRoot
from driver.adapters.nvml.partitions import LeftOutPartition, read_mig
from driver.adapters.nvml.session import ABSENT_NUMBER, NvmlReader, NvmlUnavailableError, session
from driver.errors import NodeError
from driver.model.devices import Gpu, GpuLink, LinkKind
from driver.model.pci import PciAddress, PciePath

__all__ = ["LeftOutPartition", "NvmlReport", "NvmlUnavailableError", "read_gpus"]

# NVML_DEVICE_ARCH_*, by number: older releases of the binding lack the newest names. Written as NVIDIA's own DRA driver
# publishes them, so that its users' selectors keep working.
_ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReport:
    """What NVML reports about a machine.

    Attributes:
        gpus: The GPUs by NVML's index; ``pcie`` is empty, for NVML does not know the PCIe tree.
        driver_version: The kernel driver's version, such as ``580.159.03``.
        cuda_driver_version: The highest CUDA version of the driver, such as ``13.0``.
        notes: The facts and GPUs that are missing; one sentence each, naming index, call and NVML error.
        partitions_left_out: The GPU instances that no claim can use; their notes are not in ``notes``.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    notes: tuple[str, ...] = ()
    partitions_left_out: tuple[LeftOutPartition, ...] = ()


def read_gpus(proc: HostRoot | None = None) -> NvmlReport:
    """Read all GPUs of this machine.

    Args:
        proc: The folder with this machine's ``proc``, where the driver names the device nodes of MIG devices; without
            it all MIG devices are left out.

    Raises:
        NvmlUnavailableError: libnvidia-ml.so.1 cannot be loaded.
        NodeError: NVML is there but does not start, or does not count the GPUs; the message says what to do.
    """
    with session():
        system = NvmlReader("NVML")
        driver_version = system.text(pynvml.nvmlSystemGetDriverVersion)
        # Not its _v2, which fails where libcuda.so.1 is not mounted beside NVML.
        cuda = system.read(pynvml.nvmlSystemGetCudaDriverVersion)
        cuda_driver_version = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"
        readers = tuple(NvmlReader(f"NVML GPU {index}") for index in range(_count()))
        found = tuple(_open(reader, index) for index, reader in enumerate(readers))
        addresses = frozenset(address for address in found if address is not None)
        gpus = []
        left_out: list[LeftOutPartition] = []
        for index, (reader, address) in enumerate(zip(readers, found, strict=True)):
            if address is not None:
                known = Gpu(
                    address=address,
                    pcie=PciePath(),
                    index=index,
                    driver_version=driver_version,
                    cuda_driver_version=cuda_driver_version,
                )
                gpu, partitions = _read_gpu(reader, known, addresses, proc)
                gpus.append(gpu)
                left_out += partitions
    return NvmlReport(
        gpus=tuple(gpus),
        driver_version=driver_version,
        cuda_driver_version=cuda_driver_version,
        notes=tuple(note for reader in (system, *readers) for note in reader.notes),
        partitions_left_out=tuple(left_out),
    )


def _count() -> int:
    try:
        count: int = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise NodeError(
            f"NVML does not count the GPUs: nvmlDeviceGetCount: {error}", hint="`nvidia-smi` on the node tells more"
        ) from error
    return count


def _open(reader: NvmlReader, index: int) -> PciAddress | None:
    # nvmlDeviceGetCount counts GPUs as well whose handle cannot be had (a lost GPU, no permission).
    handle = reader.read(pynvml.nvmlDeviceGetHandleByIndex, index)
    address = None
    if handle is not None:
        reader.bind(handle)
        address = reader.address(pynvml.nvmlDeviceGetPciInfo)
    if address is None:
        reader.note("left out, since its PCI address is not known")
    return address


def _read_gpu(
    reader: NvmlReader, gpu: Gpu, addresses: frozenset[PciAddress], proc: HostRoot | None
) -> tuple[Gpu, tuple[LeftOutPartition, ...]]:
    # What names the GPU comes first: once it is lost, nothing more is asked.
    uuid = reader.text(pynvml.nvmlDeviceGetUUID)
    model = reader.text(pynvml.nvmlDeviceGetName)
    minor = reader.read(pynvml.nvmlDeviceGetMinorNumber)
    architecture = reader.read(pynvml.nvmlDeviceGetArchitecture)
    capability = reader.read(pynvml.nvmlDeviceGetCudaComputeCapability)
    ecc = reader.read(pynvml.nvmlDeviceGetEccMode)
    memory_bytes = _memory_bytes(reader)
    mig, left_out = read_mig(reader, gpu.address, minor, proc)
    read = replace(
        gpu,
        uuid=uuid,
        model=model,
        minor=minor,
        memory_bytes=memory_bytes,
        architecture=None if architecture is None else _ARCHITECTURES.get(architecture),
        cuda_compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        ecc_enabled=None if ecc is None else ecc[0] == pynvml.NVML_FEATURE_ENABLED,
        mig=mig,
        links=_links(reader, addresses),
    )
    return read, left_out


def _memory_bytes(reader: NvmlReader) -> int | None:
    # Drivers before 510 lack the second version.
    for version in ((pynvml.nvmlMemory_v2,), ()):
        info = reader.read(pynvml.nvmlDeviceGetMemoryInfo, *version)
        if info is not None and info.total > 0:
            total: int = info.total
            return total
    if not reader.lost:
        # Seen on GB10: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1073
        reader.note(
            "reports no memory size: its memory is the system's (unified memory), or the driver does not know it"
        )
    return None


def _links(reader: NvmlReader, addresses: frozenset[PciAddress]) -> tuple[GpuLink, ...]:
    ends: Counter[PciAddress | None] = Counter()
    unknown = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = reader.read(pynvml.nvmlDeviceGetNvLinkState, link, absent=ABSENT_NUMBER)
        if state != pynvml.NVML_FEATURE_ENABLED:
            continue
        kind = reader.read(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, link)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends[None] += 1
        elif kind != pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU:  # that one leads to a POWER9 CPU, to no GPU
            peer = reader.address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, link)
            # Older drivers and virtual machines may not report the kind: the address of a GPU shows it as well.
            if peer is not None and (kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU or peer in addresses):
                ends[peer] += 1
            else:
                unknown += 1
    if unknown:
        reader.note(f"left out {unknown} active NVLinks: where they lead is not known")
    return tuple(
        GpuLink(kind=LinkKind.NVLINK, peer=peer, count=ends[peer]) for peer in sorted(ends, key=lambda peer: peer or "")
    )
