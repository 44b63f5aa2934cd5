"""A disk that is full at each of the writes: the error says so, nothing is half written, and space is all it takes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from driver.adapters.files.cdi_files import spec_path
from tests.support.preparer.machine import Machine, failed, gpu_claim, in_child, prepared, uid
from tests.support.preparer.sharing import mig_claim


def _tmpfs(folder: Path) -> str | None:
    """Mount a small file system; why it cannot be, or None."""
    folder.mkdir(parents=True)
    if os.getuid() != 0:
        return "mounting a file system takes root"
    run = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "rootport-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if run.returncode == 0 else f"mount: {run.stderr.strip()}"


@pytest.fixture(params=["plugin", "cdi", "plugin/device-metadata", "plugin/effects"])
def full(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Path]:
    """A folder of the machine as a file system of its own, with a file that fills it; remove the file to make space."""
    folder = machine.root / request.param
    reason = _tmpfs(folder)
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and under CI=true no test may be skipped for that", pytrace=False)
        pytest.skip(reason)
    try:
        machine.recover()
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    path = folder / ".filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(folder).f_bavail == 0
    return path


def test_a_full_file_system_is_told_and_a_retry_works_when_there_is_space(machine: Machine, full: Path) -> None:
    first, second = machine.offer(mig_claim(1, (1, 0)), mig_claim(2, (2, 0)))
    preparer = machine.preparer()
    kept = prepared(preparer.prepare([first])[first.uid])
    filler = fill(full)
    for _ in range(2):
        error = failed(preparer.prepare([second])[second.uid])
        assert ": No space left on device" in str(error)
        assert "make space on that file system, then retry" in str(error)
        assert str(full) in str(error)
        assert machine.check() == {first.uid}
        machine.check_gpus()
    assert prepared(preparer.prepare([first])[first.uid]) == kept
    filler.unlink()
    prepared(preparer.prepare([second])[second.uid])
    assert machine.check() == {first.uid, second.uid}
    filler = fill(full)
    answer = preparer.unprepare([first])[first.uid]
    filler.unlink()
    if answer is not None:  # no space for the checkpoint without the entry
        assert "No space left on device" in str(answer)
        assert preparer.unprepare([first]) == {first.uid: None}
    assert machine.check() == {second.uid}
    machine.check_gpus()


@pytest.mark.parametrize("limit", [1, 50, 500, 1500, 3000])
def test_a_write_that_ends_half_way_leaves_nothing(machine: Machine, limit: int) -> None:
    # The kernel's limit on a file's size stops a write as a full disk does, wherever the tests run.
    machine.recover()
    (claim,) = machine.offer(gpu_claim(1))

    def act() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        error = failed(machine.preparer().prepare([claim])[claim.uid])
        assert "cannot be written: File too large (raise the process's limit on file sizes" in str(error)

    size = sum(path.stat().st_size for path in machine.root.rglob("*") if path.is_file())
    code = in_child(act)
    grown = size != sum(path.stat().st_size for path in machine.root.rglob("*") if path.is_file())
    assert (code, grown) == (0, False)
    assert machine.check() == set()
    prepared(machine.preparer().prepare([claim])[claim.uid])
    assert spec_path(uid(1), machine.cdi_dir).stat().st_size < 4096
