"""What NVIDIA's management library (NVML) tells about the GPUs of this machine, through its binding ``pynvml``.

The only module that may import pynvml (held by import-linter). It reads and never changes a GPU's state. Each GPU is
asked on its own, and each fact on its own: a GPU that has fallen off the bus, or a call that a part does not have,
costs that GPU or that fact, with a note, never the neighbours.

Source of every call, number and error: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pynvml

from driver.errors import NodeError
from driver.model.devices import Gpu, GpuLink, LinkKind, MigPlacement, MigProfile, MigSupport
from driver.model.pci import PciAddress, PciePath, parse_pci_address

__all__ = ["NvmlReport", "NvmlUnavailableError", "read_gpus"]

_T = TypeVar("_T")

# The part lacks the feature, or the installed driver is older than the call.
_ABSENT: Final = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
# The same where a call takes a number that an older library does not know yet: a link, a profile.
_ABSENT_NUMBER: Final = _ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT}

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

_INIT_ERRORS: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded",
        "load it with `modprobe nvidia`; if that fails, `dmesg` says why",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "libnvidia-ml.so.1 and the loaded NVIDIA kernel driver are of different versions",
        "after a driver update reboot the node, or reload the nvidia kernel modules and restart this container",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "this process may not open the NVIDIA driver's device files",
        "run it as root, or give it /dev/nvidiactl and /dev/nvidia*",
    ),
}


class NvmlUnavailableError(NodeError):
    """NVML's library is not there: this machine has no NVIDIA driver, or the container does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReport:
    """What NVML tells about a machine.

    Attributes:
        gpus: By NVML's index; ``pcie`` is empty, for NVML does not know the PCIe tree.
        driver_version: The kernel driver's version, such as ``580.159.03``.
        cuda_driver_version: The highest CUDA version of the driver, such as ``13.0``.
        notes: What NVML did not tell and which GPU was left out; one sentence each, naming index, call and NVML error.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    notes: tuple[str, ...] = ()


def read_gpus() -> NvmlReport:
    """Ask NVML for all GPUs of this machine.

    Raises:
        NvmlUnavailableError: libnvidia-ml.so.1 cannot be loaded.
        NodeError: NVML is there but does not start, or does not count the GPUs; the message says what to do.
    """
    with _session():
        system = _Asker("NVML")
        driver_version = system.text(pynvml.nvmlSystemGetDriverVersion)
        # Not its _v2, which fails where libcuda.so.1 is not mounted beside NVML.
        cuda = system.ask(pynvml.nvmlSystemGetCudaDriverVersion)
        cuda_driver_version = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"
        askers = tuple(_Asker(f"NVML GPU {index}") for index in range(_count()))
        found = tuple(_open(asker, index) for index, asker in enumerate(askers))
        addresses = frozenset(address for address in found if address is not None)
        gpus = tuple(
            replace(
                _read_gpu(asker, Gpu(address=address, pcie=PciePath(), index=index), addresses),
                driver_version=driver_version,
                cuda_driver_version=cuda_driver_version,
            )
            for index, (asker, address) in enumerate(zip(askers, found, strict=True))
            if address is not None
        )
    return NvmlReport(
        gpus=gpus,
        driver_version=driver_version,
        cuda_driver_version=cuda_driver_version,
        notes=tuple(note for asker in (system, *askers) for note in asker.notes),
    )


@contextmanager
def _session() -> Iterator[None]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _init_error(error) from error
    try:
        yield
    finally:
        with suppress(pynvml.NVMLError):  # all answers are in: a failed goodbye takes nothing away
            pynvml.nvmlShutdown()


def _init_error(error: Any) -> NodeError:
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NvmlUnavailableError(
            "libnvidia-ml.so.1 not found: no NVIDIA driver here, or not mounted into the container",
            hint="for NVIDIA GPUs install the driver, or give the container the driver's libraries",
        )
    message, hint = _INIT_ERRORS.get(error.value, ("NVML does not start", "`nvidia-smi` on the node tells more"))
    return NodeError(f"{message}: nvmlInit: {error}", hint=hint)


def _count() -> int:
    try:
        count: int = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise NodeError(
            f"NVML does not count the GPUs: nvmlDeviceGetCount: {error}", hint="`nvidia-smi` on the node tells more"
        ) from error
    return count


class _Asker:
    """Asks NVML for one fact after the other; what fails becomes a note.

    Attributes:
        subject: Who is asked, for the notes.
        lost: NVML said "GPU is lost": nothing more is asked, since each further call may hang for seconds.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.lost = False
        self._handle: tuple[object, ...] = ()
        self._notes: dict[str, None] = {}  # an ordered set: 18 links fail with one sentence

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def bind(self, handle: object) -> None:
        """From now on each call is about this GPU."""
        self._handle = (handle,)

    def note(self, text: str) -> None:
        self._notes[f"{self.subject}: {text}"] = None

    def ask(self, function: Callable[..., _T], *arguments: object, absent: frozenset[int] = _ABSENT) -> _T | None:
        """The answer; None where NVML has none. ``absent``: the errors that mean no more than that."""
        if self.lost:
            return None
        try:
            return function(*self._handle, *arguments)
        except UnicodeDecodeError:
            self.note(f"{function.__name__}: the answer is not UTF-8")
        except pynvml.NVMLError as error:
            if error.value not in absent:
                self.lost = error.value == pynvml.NVML_ERROR_GPU_IS_LOST
                self.note(f"{function.__name__}: {error}")
        return None

    def text(self, function: Callable[..., str]) -> str | None:
        """A string that can be shown: a broken board may give anything."""
        answer = self.ask(function)
        if answer is None:
            return None
        if not answer.isprintable():
            self.note(f"{function.__name__}: the answer has unprintable characters: {answer!r}")
            return None
        return answer.strip() or None

    def address(self, function: Callable[..., Any], *arguments: object) -> PciAddress | None:
        """The address in an nvmlPciInfo_t."""
        info = self.ask(function, *arguments)
        if info is None:
            return None
        try:
            return parse_pci_address(info.busId)
        except ValueError as error:  # UnicodeDecodeError is one
            self.note(f"{function.__name__}: {error}")
            return None


def _open(asker: _Asker, index: int) -> PciAddress | None:
    # nvmlDeviceGetCount counts GPUs as well whose handle cannot be had (a lost GPU, no permission).
    handle = asker.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    address = None
    if handle is not None:
        asker.bind(handle)
        address = asker.address(pynvml.nvmlDeviceGetPciInfo)
    if address is None:
        asker.note("left out, since its PCI address is not known")
    return address


def _read_gpu(asker: _Asker, gpu: Gpu, addresses: frozenset[PciAddress]) -> Gpu:
    # What names the GPU comes first: once it is lost, nothing more is asked.
    uuid = asker.text(pynvml.nvmlDeviceGetUUID)
    model = asker.text(pynvml.nvmlDeviceGetName)
    minor = asker.ask(pynvml.nvmlDeviceGetMinorNumber)
    architecture = asker.ask(pynvml.nvmlDeviceGetArchitecture)
    capability = asker.ask(pynvml.nvmlDeviceGetCudaComputeCapability)
    ecc = asker.ask(pynvml.nvmlDeviceGetEccMode)
    return replace(
        gpu,
        uuid=uuid,
        model=model,
        minor=minor,
        memory_bytes=_memory_bytes(asker),
        architecture=None if architecture is None else _ARCHITECTURES.get(architecture),
        cuda_compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        ecc_enabled=None if ecc is None else ecc[0] == pynvml.NVML_FEATURE_ENABLED,
        mig=_mig(asker),
        links=_links(asker, addresses),
    )


def _memory_bytes(asker: _Asker) -> int | None:
    # Drivers before 510 lack the second version.
    for version in ((pynvml.nvmlMemory_v2,), ()):
        info = asker.ask(pynvml.nvmlDeviceGetMemoryInfo, *version)
        if info is not None and info.total > 0:
            total: int = info.total
            return total
    if not asker.lost:
        # Seen on GB10: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1073
        asker.note("tells no memory size: its memory is the system's (unified memory), or the driver does not know it")
    return None


def _mig(asker: _Asker) -> MigSupport | None:
    mode = asker.ask(pynvml.nvmlDeviceGetMigMode)
    if mode is None:
        return None
    current, pending = (value == pynvml.NVML_DEVICE_MIG_ENABLE for value in mode)
    if current != pending:
        switched = {True: "on", False: "off"}
        asker.note(f"MIG mode is {switched[current]} and will be {switched[pending]} after a reset of the GPU")
    profiles = (_mig_profile(asker, number) for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    return MigSupport(enabled=current, profiles=tuple(profile for profile in profiles if profile is not None))


def _mig_profile(asker: _Asker, number: int) -> MigProfile | None:
    info = asker.ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, number, absent=_ABSENT_NUMBER)
    if info is None:
        return None
    try:
        name: str = info.name
    except UnicodeDecodeError:
        asker.note(f"MIG profile {info.id} is left out: its name is not UTF-8")
        return None
    return MigProfile(
        name=name.removeprefix("MIG "),
        profile_id=info.id,
        compute_slices=info.sliceCount,
        memory_bytes=info.memorySizeMB << 20,  # MiB, whatever the field's name says
        max_instances=info.instanceCount,
        placements=_mig_placements(asker, info.id),
    )


def _mig_placements(asker: _Asker, profile_id: int) -> tuple[MigPlacement, ...]:
    # Without an array the call only counts. It needs root, else "Insufficient Permissions".
    possible = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    count = ctypes.c_uint()
    if asker.ask(possible, profile_id, None, ctypes.byref(count)) is None:
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if asker.ask(possible, profile_id, places, ctypes.byref(count)) is None:
        return ()
    return tuple(MigPlacement(start=place.start, size=place.size) for place in places[: count.value])


def _links(asker: _Asker, addresses: frozenset[PciAddress]) -> tuple[GpuLink, ...]:
    ends: Counter[PciAddress | None] = Counter()
    unknown = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = asker.ask(pynvml.nvmlDeviceGetNvLinkState, link, absent=_ABSENT_NUMBER)
        if state != pynvml.NVML_FEATURE_ENABLED:
            continue
        kind = asker.ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, link)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends[None] += 1
        elif kind != pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU:  # that one leads to a POWER9 CPU, to no GPU
            peer = asker.address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, link)
            # Older drivers and virtual machines may not tell the kind: the address of a GPU says it as well.
            if peer is not None and (kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU or peer in addresses):
                ends[peer] += 1
            else:
                unknown += 1
    if unknown:
        asker.note(f"left out {unknown} active NVLinks: where they lead is not known")
    return tuple(
        GpuLink(kind=LinkKind.NVLINK, peer=peer, count=ends[peer]) for peer in sorted(ends, key=lambda peer: peer or "")
    )
