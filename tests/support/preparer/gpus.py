"""A node's GPUs and NICs as files: what stands below the interface of effectors in the tests of the plugin's state."""

from __future__ import annotations

import json
from pathlib import Path

from driver.api.strict import read, write
from driver.errors import NodeError
from driver.model.devices import MigInstance, MigPlacement, MigProfile, MigSupport
from driver.plan.effects import (
    ConfigureVf,
    CreateMigDevice,
    Effect,
    GpuEffect,
    LeaveMigMode,
    LendInterface,
    RunMpsDaemon,
    SetTimeSlice,
)

GIB = 2**30
MIG = MigSupport(
    enabled=False,
    profiles=(
        MigProfile(
            name="1g.10gb",
            profile_id=19,
            compute_slices=1,
            memory_bytes=10 * GIB,
            max_instances=7,
            placements=tuple(MigPlacement(start=start, size=1) for start in range(7)),
        ),
        MigProfile(
            name="2g.20gb",
            profile_id=14,
            compute_slices=2,
            memory_bytes=20 * GIB,
            max_instances=3,
            placements=tuple(MigPlacement(start=start, size=2) for start in (0, 2, 4)),
        ),
    ),
)


class NodeOfFiles:
    """Does and undoes every kind of effect: one file each in a folder, which a reboot empties.

    It refuses what a GPU would: two time slices, MIG beside anything else, partitions that overlap. The devices that
    ``stuck`` names answer nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stuck = folder.with_name(f"{folder.name}-stuck")
        self.calls = folder.with_name(f"{folder.name}-calls")
        self.generation = folder.with_name(f"{folder.name}-generation")

    def refuse_others(self, effect: Effect) -> None:
        if isinstance(effect, CreateMigDevice) and self._path(effect).exists():
            raise NodeError("somebody else has made one there")

    def do(self, effect: Effect) -> MigInstance | None:
        self._called("do", effect)
        self.folder.mkdir(exist_ok=True)
        path = self._path(effect)
        if not path.exists():
            for other in self.there(effect.target):
                assert not _clash(effect, other), f"{effect} beside {other}"
            new = self.folder.with_name(f"{self.folder.name}-new")
            new.write_text(json.dumps(self._generation() | write(effect)))
            new.replace(path)
        if not isinstance(effect, CreateMigDevice):
            return None
        made = json.loads(path.read_text())["generation"]
        return MigInstance(
            profile_id=effect.profile_id,
            placement=MigPlacement(start=effect.start, size=effect.size),
            gpu_instance=effect.start + 1,
            compute_instance=0,
            uuid=f"MIG-{effect.gpu}-{effect.start}-{effect.size}-{made}",
            gpu_instance_minor=3,
            compute_instance_minor=4,
        )

    def undo(self, effect: Effect) -> None:
        self._called("undo", effect)
        self._path(effect).unlink(missing_ok=True)

    def there(self, target: str | None = None) -> list[Effect]:
        """What is done now, sorted by file name."""
        found: list[Effect] = []
        for path in sorted(self.folder.iterdir()) if self.folder.exists() else ():
            fields = {name: value for name, value in json.loads(path.read_text()).items() if name != "generation"}
            effect = read(Effect, fields)
            if target in (None, effect.target):
                found.append(effect)
        return found

    def stick(self, *targets: str) -> None:
        """Have devices answer nothing; none: have all answer again."""
        self.stuck.write_text(" ".join(targets))

    def renumber(self) -> None:
        """Have MIG devices that are made from now on be others than before."""
        self.generation.write_text(str(self._generation()["generation"] + 1))

    def log(self) -> list[str]:
        """``do`` and ``undo`` with kind and device, in their order, since the last call of this."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return lines

    def _called(self, what: str, effect: Effect) -> None:
        with self.calls.open("a") as file:
            file.write(f"{what} {effect.kind} {effect.target}\n")
        if self.stuck.exists() and effect.target in self.stuck.read_text().split():
            raise NodeError(f"{effect.target} does not answer", hint="reset it")

    def _generation(self) -> dict[str, int]:
        return {"generation": int(self.generation.read_text()) if self.generation.exists() else 1}

    def _path(self, effect: Effect) -> Path:
        match effect:
            case ConfigureVf():
                return self.folder / f"{effect.function}-settings"
            case LendInterface():
                return self.folder / f"{effect.function}-lent-{effect.pod_uid}"
            case CreateMigDevice():
                return self.folder / f"{effect.gpu}-mig-{effect.profile_id}-{effect.start}"
            case SetTimeSlice():
                return self.folder / f"{effect.gpu}-slice-{effect.interval}"
            case RunMpsDaemon():
                return self.folder / f"{effect.gpu}-mps"
            case LeaveMigMode():
                raise AssertionError(effect)


def _clash(one: Effect, other: Effect) -> bool:
    if isinstance(one, CreateMigDevice) and isinstance(other, CreateMigDevice):
        return one.start < other.start + other.size and other.start < one.start + one.size
    return isinstance(one, GpuEffect) or type(one) is type(other)
