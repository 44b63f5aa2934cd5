"""Which GpuPolicies are in force while their file changes as a mounted ConfigMap's does."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.adapters.files.policies_in_force import PoliciesInForce
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.errors import InputError
from tests.support.paths import REPO

HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\n"
TWO = HEADER + "policies: [{maxShares: 2}]\n"
THREE = HEADER + "policies: [{maxShares: 3}]\n"
WRONG = HEADER + "policies: [{maxShares: 0}]\n"


class Mount:
    """A ConfigMap as kubelet mounts it: files are links into a folder that is swapped by one rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = 0
        self.file = folder / "gpu-policies.yaml"

    def put(self, text: str | None) -> None:
        self.versions += 1
        version = self.folder / f"..{self.versions}"
        version.mkdir()
        if text is not None:
            (version / self.file.name).write_text(text)
            if not self.file.is_symlink():
                self.file.symlink_to(f"..data/{self.file.name}")
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


def in_force(path: Path | None, clock: Callable[[], float] = time.monotonic) -> PoliciesInForce[GpuPolicies]:
    return PoliciesInForce(path, default=DEFAULT_POLICIES, flag="--gpu-policies", clock=clock)


def limit(policies: PoliciesInForce[GpuPolicies]) -> int | None:
    return policies.now.of(model="any", node="any", address="0000:1b:00.0").max_shares


def test_a_change_is_seen_at_the_next_look_and_only_once(mount: Mount) -> None:
    mount.put(TWO)
    policies = in_force(mount.file)
    assert limit(policies) == 2
    assert not policies.reload()
    mount.put(THREE)
    assert policies.reload()
    assert limit(policies) == 3
    assert not policies.reload()


def test_the_same_rules_in_another_file_are_no_change(mount: Mount) -> None:
    mount.put(TWO)
    policies = in_force(mount.file)
    mount.put("# a comment\n" + TWO)
    assert not policies.reload()


def test_a_wrong_file_is_logged_and_what_was_in_force_stays(mount: Mount, caplog: pytest.LogCaptureFixture) -> None:
    mount.put(TWO)
    policies = in_force(mount.file)
    mount.put(WRONG)
    with caplog.at_level(logging.ERROR):
        assert not policies.reload()
    assert limit(policies) == 2
    (record,) = caplog.records
    assert "policies[0].maxShares" in record.__dict__["error"]
    mount.put(THREE)
    assert policies.reload()
    assert limit(policies) == 3


def test_a_file_that_goes_means_the_defaults_and_one_that_comes_is_read(mount: Mount) -> None:
    mount.put(None)
    policies = in_force(mount.file)
    assert policies.now == DEFAULT_POLICIES
    mount.put(TWO)
    assert policies.reload()
    mount.put(None)
    assert policies.reload()
    assert policies.now == DEFAULT_POLICIES


def test_a_file_is_read_again_after_a_minute_though_nothing_tells_that_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(TWO)
    clock = Clock()
    policies = in_force(path, clock)
    policies._mark = "as if it were the same file"
    clock.now = 1.0
    policies.reload()
    path.write_text(THREE)
    policies._mark = (
        path.stat().st_dev,
        path.stat().st_ino,
        path.stat().st_mtime_ns,
        path.stat().st_size,
    )
    assert not policies.reload()
    clock.now = 62.0
    assert policies.reload()


def test_without_a_file_the_defaults_hold_for_ever() -> None:
    policies = in_force(None)
    assert not policies.reload()
    assert policies.now == DEFAULT_POLICIES


def test_a_wrong_file_or_path_at_the_start_is_an_error(mount: Mount) -> None:
    mount.put(WRONG)
    with pytest.raises(InputError, match="maxShares"):
        in_force(mount.file)
    with pytest.raises(InputError, match=r"--gpu-policies .*: there is no folder"):
        in_force(mount.folder / "nowhere" / "policies.yaml")


def test_the_default_says_which_kind_of_policies_the_file_holds(mount: Mount) -> None:
    mount.put("apiVersion: rootport.dev/v1alpha1\nkind: NicPolicies\npolicies: [{vfs: named}]\n")
    policies = PoliciesInForce(mount.file, default=DEFAULT_NIC_POLICIES, flag="--nic-policies")
    assert policies.now.of(model="any", node="any").vfs == "named"
    with pytest.raises(InputError, match="'GpuPolicies'"):
        in_force(mount.file)


@pytest.mark.parametrize(
    ("kind", "mistake"), [("Gpu", "policies[0].maxShares"), ("Nic", "policies[0].vfs")], ids=["GPUs", "NICs"]
)
def test_the_controller_does_not_start_with_wrong_policies(tmp_path: Path, kind: str, mistake: str) -> None:
    path = tmp_path / "policies.yaml"
    field = mistake.rpartition(".")[2]
    path.write_text(f"apiVersion: rootport.dev/v1alpha1\nkind: {kind}Policies\npolicies: [{{{field}: 0}}]\n")
    told = subprocess.run(
        [sys.executable, "-m", "controller", f"--{kind.lower()}-policies={path}"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert told.returncode == 2
    assert f"rootport-controller: {path}:3: {kind}Policies: {mistake}" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_field_that_is_deprecated_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(
        "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\npolicies:\n- strategies: [mps, timeSlicing]\n"
    )
    now = 0.0
    policies = PoliciesInForce(path, default=DEFAULT_POLICIES, flag="--gpu-policies", clock=lambda: now)
    now = 100.0
    policies.reload()
    notes = [record.note for record in caplog.records if "deprecated" in record.getMessage()]
    assert [note.partition(": ")[0] for note in notes] == ["policies[0].strategies is deprecated"]
