"""Builds the programs, puts them into a host's tree, and tells what they were told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["InstalledPrograms", "StubPrograms", "build"]

_SOURCES: Final = {"nvidia-smi": "nvidia_smi.c", "nvidia-cuda-mps-control": "mps_control.c"}


def build(directory: Path) -> StubPrograms:
    """Compile the programs into ``directory``; static, so that they run below any root."""
    for program, source in _SOURCES.items():
        command = ["cc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
        subprocess.run([*command, "-o", str(directory / program), str(Path(__file__).with_name(source))], check=True)
    return StubPrograms(directory)


@dataclass(frozen=True, slots=True)
class StubPrograms:
    """The built programs; ``directory`` holds them."""

    directory: Path

    def install(self, root: Path) -> InstalledPrograms:
        """Put them into ``usr/bin`` of a host's root, in place of what is there."""
        folder = root / "usr/bin"
        folder.mkdir(parents=True, exist_ok=True)
        for program in _SOURCES:
            (folder / program).unlink(missing_ok=True)
            shutil.copy(self.directory / program, folder / program)
        return InstalledPrograms(root)


@dataclass(frozen=True, slots=True)
class InstalledPrograms:
    """The programs of one host, whose root is ``root``."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.root / "usr/bin"

    @property
    def smi_state(self) -> Path:
        """nvidia-smi's folder; see nvidia_smi.c for what may be put there."""
        state = self.folder / "nvidia-smi.state"
        state.mkdir(exist_ok=True)
        return state

    def time_slices(self) -> dict[str, int]:
        """The last time slice of each GPU that had one set, by UUID."""
        return {file.name: int(file.read_text()) for file in self.smi_state.iterdir() if file.name.startswith("GPU-")}

    def mps_behaves(self, *words: str) -> None:
        """How MPS daemons that are started from now on behave: see mps_control.c."""
        (self.folder / "nvidia-cuda-mps-control.behaviour").write_text(" ".join(words))

    def mps_starts(self) -> list[tuple[str, str]]:
        """CUDA_VISIBLE_DEVICES and pipe folder of each MPS daemon that was ever started."""
        file = self.folder / "nvidia-cuda-mps-control.starts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(devices, pipe) for devices, _, pipe in (line.partition(" ") for line in lines)]

    def processes(self) -> dict[int, str]:
        """Each program that runs below the root now: its process and its name."""
        return dict(_processes(self.root))

    def kill_all(self) -> dict[int, str]:
        """End what still runs, and tell what it was."""
        found = self.processes()
        for process in found:
            os.kill(process, signal.SIGKILL)
        return found


def _processes(root: Path) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "cmdline").read_bytes().partition(b"\0")[0].decode().rpartition("/")[2]
            if name.startswith("nvidia-") and (folder / "root").samefile(root):
                yield int(folder.name), name
        except (OSError, UnicodeDecodeError):
            continue
