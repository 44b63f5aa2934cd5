"""What a cluster leaves behind when it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster.node import remove_control_groups


@pytest.mark.parametrize("version", ["1", "2"])
def test_empty_control_groups_of_pods_are_removed_and_busy_ones_stay(tmp_path: Path, version: str) -> None:
    root = tmp_path / "cpu" / "k8s.io" if version == "1" else tmp_path / "k8s.io"
    (root / "pod" / "container").mkdir(parents=True)
    remove_control_groups(tmp_path)
    assert not root.exists()
    busy = root / "other-pod" / "container"
    busy.mkdir(parents=True)
    (busy / "cannot-be-removed").touch()
    (root / "pod").mkdir()
    remove_control_groups(tmp_path)
    assert [path.name for path in root.iterdir()] == ["other-pod"]


def test_groups_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "docker").mkdir(parents=True)
    remove_control_groups(tmp_path)
    assert (tmp_path / "cpu" / "docker").exists()
