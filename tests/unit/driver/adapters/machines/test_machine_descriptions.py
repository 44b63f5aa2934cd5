"""What our descriptions of real machines say is what the files say that other projects publish of them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.machines.topology import read_topology
from driver.adapters.sysfs.discovery import discover
from driver.layout.slices import resource_slices
from tests.support.sysfs_machines import SYSFS_MACHINES
from tests.support.topologies import MACHINE_FILES, OTHERS_FILES, REAL_MACHINE_FILES, nccl_file

FROM_TABLES = {"dgx-1-v100", "dgx-2"}
"""Machines of which no whole file is published, only the table of nvidia-smi topo."""
DESCRIPTIONS = {path.stem: path for path in REAL_MACHINE_FILES if path.stem not in FROM_TABLES}

others_files_needed = pytest.mark.skipif(
    not OTHERS_FILES.is_dir(), reason=f"the real machines' files are not on this machine: {OTHERS_FILES} is missing"
)
# A description names a switch once, wherever the real file repeats it.
REPETITIONS = "times at one place of the file; it is taken as one switch."


@others_files_needed
def test_every_real_file_has_a_description() -> None:
    assert sorted(path.stem for path in (OTHERS_FILES / "nccl").glob("*.xml")) == sorted(DESCRIPTIONS)
    archives = (path.name.removesuffix(".tar.bz2") for path in (OTHERS_FILES / "sysfs").glob("*.tar.bz2"))
    assert sorted(archives) == sorted(SYSFS_MACHINES)


@others_files_needed
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_gives_the_inventory_and_slices_of_the_real_file(name: str) -> None:
    ours = read_topology(DESCRIPTIONS[name])
    real = read_topology(OTHERS_FILES / "nccl" / f"{name}.xml")
    assert list(ours.notes) == [note for note in real.notes if not note.endswith(REPETITIONS)]
    assert (ours.node, ours.gpus, ours.nics, ours.fpgas) == (real.node, real.gpus, real.nics, real.fpgas)
    assert [part.to_wire() for part in resource_slices(ours)] == [part.to_wire() for part in resource_slices(real)]


@others_files_needed
@pytest.mark.parametrize("name", SYSFS_MACHINES)
def test_a_written_sysfs_tree_gives_the_inventory_of_the_real_one(name: str, tmp_path: Path) -> None:
    with tarfile.open(OTHERS_FILES / "sysfs" / f"{name}.tar.bz2") as archive:
        # The thousands of files about processors and file systems take seconds.
        members = [part for part in archive if not {"system", "cpuset", "block"} & set(Path(part.name).parts)]
        archive.extractall(tmp_path, members, filter="data")
    real = discover(HostRoot(tmp_path / members[0].name), node="n")
    SYSFS_MACHINES[name](tmp_path / "ours")
    assert discover(HostRoot(tmp_path / "ours"), node="n") == real


@pytest.mark.parametrize("path", MACHINE_FILES, ids=lambda path: path.stem)
def test_a_description_and_the_nccl_file_made_of_it_are_one_machine(path: Path) -> None:
    assert read_topology(nccl_file(path.stem)) == read_topology(path)
