"""A file of policies that has none in it is recognized without the models; any other is left to these."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.files.no_policies import NoPolicies, file_version
from tests.bench.plugin_memory_bench import installed_policies

HEAD = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(HEAD + "policies: []\n", True, id="empty list"),
        pytest.param(HEAD, True, id="no list"),
        pytest.param(HEAD + "policies: [{strategies: [mps]}]\n", False, id="a policy"),
        pytest.param(HEAD + "policies: null\n", False, id="null"),
        pytest.param(HEAD + "polices: []\n", False, id="unknown field"),
        pytest.param(HEAD + "policies: [{strategies: [mps]}]\npolicies: []\n", False, id="twice"),
        pytest.param(HEAD.replace("Gpu", "Nic"), False, id="another kind"),
        pytest.param(HEAD + "---\n" + HEAD, False, id="two documents"),
        pytest.param("policies: [\n", False, id="no YAML"),
    ],
)
def test_only_a_valid_file_without_policies_is_recognized(tmp_path: Path, text: str, *, expected: bool) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(text)
    assert NoPolicies(path, "GpuPolicies").holds() is expected


def test_a_missing_file_is_left_to_the_model(tmp_path: Path) -> None:
    assert file_version(tmp_path / "none") is None
    assert not NoPolicies(tmp_path / "none", "GpuPolicies").holds()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(HEAD)
    policies = NoPolicies(path, "GpuPolicies")
    assert policies.holds()
    path.write_text(HEAD + "policies: [{strategies: [mps]}]\n")
    assert not policies.holds()


def test_the_file_that_is_installed_has_no_policies(tmp_path: Path) -> None:
    assert NoPolicies(installed_policies(tmp_path), "GpuPolicies").holds()
