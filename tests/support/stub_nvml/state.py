"""What the stub keeps of each GPU when a process ends, as hardware does, and what happens to a GPU meanwhile.

MIG mode, MIG instances and compute mode: the format stands in state.h, at ``read_state``. A test writes a state to
begin with a GPU that somebody has partitioned, and reads it to see what has been done.

Readings and errors: :func:`set_live` and :func:`inject_xid` tell them to all processes that hold an NVML session,
wherever they see the folder; the formats stand at the head of nvml_stub.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "StubComputeInstance",
    "StubGpuInstance",
    "StubState",
    "inject_double_bit_ecc_error",
    "inject_xid",
    "read_state",
    "set_live",
    "write_state",
]


@dataclass(frozen=True, slots=True)
class StubComputeInstance:
    """A compute instance; ``profile`` is its number and, in the stub, NVML_COMPUTE_INSTANCE_PROFILE_*."""

    id: int
    profile: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class StubGpuInstance:
    """A GPU instance and what is in it."""

    id: int
    profile: int
    start: int
    size: int
    compute: tuple[StubComputeInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StubState:
    """One GPU's.

    Attributes:
        mig: MIG mode, current and pending.
        compute_mode: NVML_COMPUTEMODE_*.
    """

    mig: tuple[int, int] = (0, 0)
    compute_mode: int = 0
    instances: tuple[StubGpuInstance, ...] = ()


def write_state(folder: Path, gpu: int, state: StubState) -> None:
    """Make GPU ``gpu`` of the machine whose state is in ``folder`` be so."""
    folder.mkdir(parents=True, exist_ok=True)
    computes = [(gi.id, ci) for gi in state.instances for ci in gi.compute]
    lines = [
        f"mig {state.mig[0]} {state.mig[1]}",
        f"compute {state.compute_mode}",
        f"serial {len(computes)}",
        *(f"gi {gi.id} {gi.profile} {gi.start} {gi.size}" for gi in state.instances),
        *(f"ci {gi} {ci.id} {ci.profile} {ci.start} {ci.size} {n}" for n, (gi, ci) in enumerate(computes)),
    ]
    (folder / f"gpu{gpu}").write_text("\n".join(lines) + "\n")


def read_state(folder: Path, gpu: int) -> StubState:
    """What GPU ``gpu`` is like; what it was at first where nothing has been changed."""
    path = folder / f"gpu{gpu}"
    mig, compute_mode = (0, 0), 0
    instances: dict[int, tuple[int, int, int]] = {}
    computes: dict[int, list[StubComputeInstance]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, *words = line.split()
        numbers = [int(word) for word in words]
        if kind == "mig":
            mig = (numbers[0], numbers[1])
        elif kind == "compute":
            compute_mode = numbers[0]
        elif kind == "gi":
            instances[numbers[0]] = (numbers[1], numbers[2], numbers[3])
        elif kind == "ci":
            computes.setdefault(numbers[0], []).append(StubComputeInstance(*numbers[1:5]))
    return StubState(
        mig=mig,
        compute_mode=compute_mode,
        instances=tuple(
            StubGpuInstance(number, *place, compute=tuple(computes.get(number, ())))
            for number, place in instances.items()
        ),
    )


def inject_xid(folder: Path, gpu: int, xid: int) -> None:
    """Let the driver report an error of a GPU; -1 for one that it does not tell. Who listens already gets it."""
    _append_event(folder, f"gpu{gpu} xid {xid}")


def inject_double_bit_ecc_error(folder: Path, gpu: int) -> None:
    """Let the driver report a double-bit ECC error of a GPU as an event of its own type."""
    _append_event(folder, f"gpu{gpu} ecc")


def set_live(folder: Path, gpu: int, **facts: int | str | None) -> None:
    """Change what a GPU tells from the next call on; the other facts stay.

    Args:
        folder: The machine's state.
        gpu: Its index.
        facts: By the names in nvml_stub.c: ``recovery_action=1``, ``lost=1``, ``temperature=91``, and with a mapping
            ``**{"fail.nvmlDeviceGetPowerUsage": "NVML_ERROR_UNKNOWN"}``. An empty text is "not supported". None takes
            back what was set before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / "live", folder / "new-live"
    lines = path.read_text().splitlines() if path.exists() else []
    live = {key: value for key, _, value in (line.partition("=") for line in lines)}
    for name, value in facts.items():
        live.pop(f"gpu{gpu}.{name}", None)
        if value is not None:
            live[f"gpu{gpu}.{name}"] = str(value)
    new.write_text("".join(f"{key}={value}\n" for key, value in live.items()))
    new.replace(path)


def _append_event(folder: Path, line: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "events").open("a") as file:
        file.write(f"{line}\n")
