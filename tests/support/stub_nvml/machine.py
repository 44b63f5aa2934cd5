"""The machine that the stub plays, and its description as nvml_stub.c reads it (the format stands at its head)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

__all__ = ["Link", "LinkEnd", "Machine", "StubGpu", "StubProfile"]


class LinkEnd(IntEnum):
    """nvml.h: nvmlIntNvLinkDeviceType_t."""

    GPU = 0
    IBM_NPU = 1
    SWITCH = 2
    UNKNOWN = 255


@dataclass(frozen=True, slots=True)
class Link:
    """An active NVLink. None for its end or address: NVML answers "Not Supported" (old drivers, virtual machines)."""

    end: LinkEnd | None
    address: str | None

    def __str__(self) -> str:
        end = "-" if self.end is None else int(self.end)
        return f"{end} {self.address or '-'}"


@dataclass(frozen=True, slots=True)
class StubProfile:
    """A GPU instance profile.

    Attributes:
        constant: NVML_GPU_INSTANCE_PROFILE_*, by which nvmlDeviceGetGpuInstanceProfileInfoV is asked.
        placements: (start, size), in memory slices.
        engines: Copy engines, decoders, encoders, JPEG engines, optical flow accelerators.
    """

    constant: int
    profile_id: int
    name: str
    slices: int
    instances: int
    multiprocessors: int
    mebibytes: int
    placements: tuple[tuple[int, int], ...]
    engines: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StubGpu:
    """One GPU. None: NVML answers "Not Supported".

    Attributes:
        name: As all strings here, with the surrogate ``\\udcXX`` for a byte XX that is not UTF-8.
        ecc: Current and pending mode; mig likewise, which is what it is at first where the machine has a state.
        activation: The NVML errors that keep MIG mode from being switched on, and off; as numbers, 0 for none.
        links: By link number; None for a link that is down.
        readings: How it is, by the names in nvml_stub.c (``temperature``, ``recovery_action``); what is not there is
            not supported.
        fail: Function to the NVML error that it gives for this GPU; as in nvml_stub.c with the call from which on, and
            how often.
    """

    pci: str | None = "00000000:01:00.0"
    uuid: str | None = "GPU-00000000-0000-0000-0000-000000000000"
    name: str | None = None
    minor: int | None = 0
    memory: int | None = None
    architecture: int | None = None
    cuda: tuple[int, int] | None = None
    ecc: tuple[int, int] | None = None
    mig: tuple[int, int] | None = None
    activation: tuple[int, int] | None = None
    profiles: tuple[StubProfile, ...] = ()
    links: tuple[Link | None, ...] = ()
    readings: Mapping[str, int | str] = field(default_factory=dict)
    fail: Mapping[str, str] = field(default_factory=dict)

    def at(self, number: int, pci: str) -> StubGpu:
        """The same part as GPU ``number`` of a machine."""
        return replace(self, pci=pci, minor=number, uuid=f"GPU-{number:08x}-0000-4000-8000-{number:012x}")

    def failing(self, function: str, error: str) -> StubGpu:
        """The same GPU with one more function that fails."""
        return replace(self, fail={**self.fail, function: error})

    def _facts(self) -> Iterator[tuple[str, object]]:
        for name in ("pci", "uuid", "name", "minor", "memory", "architecture"):
            yield name, getattr(self, name)
        for name in ("cuda", "ecc", "mig", "activation"):
            pair = getattr(self, name)
            yield name, pair and f"{pair[0]} {pair[1]}"
        for p in self.profiles:
            engines = " ".join(str(count) for count in p.engines)
            figures = f"{p.profile_id} {p.slices} {p.instances} {p.multiprocessors} {p.mebibytes} {engines}"
            yield f"profile{p.constant}", f"{figures} MIG {p.name}"
            yield f"placements.{p.profile_id}", " ".join(f"{start}:{size}" for start, size in p.placements)
        for number, link in enumerate(self.links):
            yield f"link{number}", link or "down"
        yield from self.readings.items()
        for function, error in self.fail.items():
            yield f"fail.{function}", error


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All that the stub knows.

    Attributes:
        cuda: As nvmlSystemGetCudaDriverVersion counts: 1000 * major + 10 * minor.
        trace: A file that gets the name of each NVML function called.
        state: A folder that keeps what can be changed, for all processes (``state.py`` reads and writes it); None
            where nothing can be changed. A relative one is below the description's folder.
        capabilities: A folder that is /proc/driver/nvidia/capabilities; relative as above.
        fail: Function to the NVML error that it always gives.
        die: A function after which the process ends at once.
    """

    gpus: tuple[StubGpu, ...] = ()
    driver: str | None = "580.159.03"
    cuda: int | None = 13000
    trace: str | None = None
    state: str | None = None
    capabilities: str | None = None
    fail: Mapping[str, str] = field(default_factory=dict)
    die: str | None = None

    def description(self) -> bytes:
        """The text that ROOTPORT_STUB_NVML's file must hold."""
        facts: list[tuple[str, object]] = [
            ("gpus", len(self.gpus)),
            ("driver", self.driver),
            ("cuda", self.cuda),
            ("trace", self.trace),
            ("state", self.state),
            ("capabilities", self.capabilities),
            *([] if self.die is None else [(f"die.{self.die}", 1)]),
            *((f"fail.{function}", error) for function, error in self.fail.items()),
        ]
        for index, gpu in enumerate(self.gpus):
            facts.extend((f"gpu{index}.{name}", value) for name, value in gpu._facts())
        return b"".join(_line(key, value) for key, value in facts if value is not None)


def _line(key: str, value: object) -> bytes:
    raw = str(value).encode(errors="surrogateescape")
    if b"\n" in raw or b"\0" in raw:
        raise ValueError(f"{key}: the description's format has no way to write a line feed or a null byte")
    return key.encode() + b"=" + raw + b"\n"
