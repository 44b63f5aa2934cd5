"""The facts of a host and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus
from kubeletplugin.publish.host_checks import folder_facts
from kubeletplugin.publish.preflight import (
    FolderFacts,
    NodeFacts,
    check_cdi_folder,
    check_kubelet,
    check_runtime,
    check_state_folder,
)


def node(*, runtime: str = "containerd://2.2.3", kubelet: str = "v1.36.3") -> NodeFacts:
    return NodeFacts(runtime=runtime, kubelet=kubelet, capacity={})


@pytest.mark.parametrize(
    ("runtime", "status", "says"),
    [
        ("containerd://2.2.3", ConditionStatus.TRUE, "by default"),
        ("containerd://2.0.0-rc.1", ConditionStatus.TRUE, "by default"),
        ("containerd://1.7.27", ConditionStatus.UNKNOWN, "enable_cdi = true"),
        ("containerd://1.6.38", ConditionStatus.FALSE, "update to containerd 2"),
        ("containerd://1.10.0", ConditionStatus.UNKNOWN, "enable_cdi = true"),
        ("cri-o://1.34.1", ConditionStatus.TRUE, "by default"),
        ("cri-o://1.28.0", ConditionStatus.TRUE, "by default"),
        ("cri-o://1.27.9", ConditionStatus.FALSE, "1.28"),
        ("docker://28.0.1", ConditionStatus.UNKNOWN, "not known"),
        ("containerd://Unknown", ConditionStatus.UNKNOWN, "not known"),
        ("", ConditionStatus.UNKNOWN, "not known"),
    ],
)
def test_whether_the_runtime_reads_cdi(runtime: str, status: ConditionStatus, says: str) -> None:
    found = check_runtime(node(runtime=runtime), "/var/run/cdi")
    assert found.status is status
    assert says in found.message


@pytest.mark.parametrize(
    ("folder", "status"), [("/etc/cdi", ConditionStatus.TRUE), ("/srv/cdi", ConditionStatus.UNKNOWN)]
)
def test_a_folder_that_no_runtime_reads_by_default_must_be_named_to_it(folder: str, status: ConditionStatus) -> None:
    found = check_runtime(node(), folder)
    assert found.status is status
    assert (f"cdi_spec_dirs must name {folder}" in found.message) is (status is ConditionStatus.UNKNOWN)


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("v1.36.3", ConditionStatus.TRUE),
        ("v1.34.0-gke.1", ConditionStatus.TRUE),
        ("v1.33.9", ConditionStatus.FALSE),
        ("v2.0.0", ConditionStatus.TRUE),
        ("", ConditionStatus.UNKNOWN),
        ("latest", ConditionStatus.UNKNOWN),
    ],
)
def test_whether_the_kubelet_is_new_enough(version: str, status: ConditionStatus) -> None:
    assert check_kubelet(node(kubelet=version)).status is status


@pytest.mark.parametrize(
    ("facts", "reason", "says"),
    [
        pytest.param(FolderFacts(path="/c"), "Writable", "/c", id="nothing-known-of-space"),
        pytest.param(FolderFacts(path="/c", error="Read-only file system"), "NotWritable", "Read-only", id="read-only"),
        pytest.param(FolderFacts(path="/c", free_bytes=4096, free_files=9999), "NoSpace", "4096 bytes", id="full"),
        pytest.param(FolderFacts(path="/c", free_bytes=1 << 30, free_files=0), "NoSpace", "0 inodes", id="no-inodes"),
        pytest.param(FolderFacts(path="/c", free_bytes=1 << 30, free_files=9999), "Writable", "/c", id="fine"),
    ],
)
@pytest.mark.parametrize("check", [check_cdi_folder, check_state_folder])
def test_a_folder_is_good_while_it_can_be_written_and_has_room(
    facts: FolderFacts, reason: str, says: str, check: Callable[[FolderFacts], ConditionReport]
) -> None:
    found = check(facts)
    assert (found.reason, found.status is ConditionStatus.TRUE) == (reason, reason == "Writable")
    assert says in found.message


def test_a_folder_is_tried_by_writing_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cdi"
    found = folder_facts(folder)
    assert found.error is None
    assert found.free_bytes
    assert list(folder.iterdir()) == []


def test_what_a_crashed_check_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".rootport.dev-trial.tmp").write_bytes(b"half")
    assert folder_facts(tmp_path).error is None
    assert list(tmp_path.iterdir()) == []


def test_the_trial_follows_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / ".rootport.dev-trial.tmp").symlink_to(precious)
    assert folder_facts(folder).error is not None
    assert precious.read_text() == "kept"


def test_why_a_folder_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert folder_facts(tmp_path / "file" / "cdi").error == "Not a directory"
