"""``--nic-policies`` of the command line: what the file says is what is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPO
from tests.support.topologies import machine_file

Run = Callable[..., Any]

EXAMPLES = REPO / "examples"
TOPOLOGY = str(machine_file("rccl-4p4h"))
HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: NicPolicies\n"
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: some-bandwidth}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: rdma.rootport.dev
        capacity: {requests: {bandwidth: 10G}}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    return tmp_path / "policies.yaml"


def test_slices_are_by_the_policies_of_the_file(rootport: Run, policies: Path) -> None:
    assert '"bandwidth"' in rootport("slices", "--topology", TOPOLOGY, "-o", "json").out
    policies.write_text(HEADER + "policies: [{sharing: false}]\n")
    ran = rootport("slices", "--topology", TOPOLOGY, "-o", "json", "--nic-policies", policies)
    assert ran.code == 0
    assert '"bandwidth"' not in ran.out
    assert '"rdma"' in ran.out


def test_simulate_tells_what_a_virtual_function_reserves_and_what_is_left(rootport: Run) -> None:
    h100 = ("simulate", "--topology", EXAMPLES / "machines/azure-nd-h100-v5.yaml", "--nic-speed", 400)
    ran = rootport(*h100, "--vfs-per-nic", 8, "--claims", EXAMPLES / "vf-bandwidth.yaml")
    assert ran.code == 0
    assert "7 of 8 VFs, 375Gbit/s" in ran.out
    assert "rdma-vf-0101-00-00-2, 25Gbit/s" in ran.out


def test_slices_are_of_the_vfs_and_the_speed_that_are_assumed(rootport: Run) -> None:
    h100 = ("slices", "--topology", "examples/machines/azure-nd-h100-v5.yaml", "-o", "json")
    assert '"bandwidth"' in rootport(*h100, "--nic-speed", 400).out
    assert '"rdma-vfs-0101-00-00-0"' in rootport(*h100, "--vfs-per-nic", 4).out


def test_claims_are_given_by_the_policies_of_the_file(rootport: Run, policies: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(CLAIM)
    policies.write_text(HEADER + "policies: [{bandwidth: {minimum: 25G, step: 25G}}]\n")
    ran = rootport("simulate", "--topology", TOPOLOGY, "--claims", claims, "--nic-policies", policies, "-o", "json")
    (claim,) = json.loads(ran.out)["claims"]
    assert claim["devices"][0]["consumedCapacity"] == {"bandwidth": "25G"}


@pytest.mark.parametrize("command", ["slices", "simulate"])
def test_a_mistake_is_told_with_its_line_and_field(rootport: Run, policies: Path, command: str) -> None:
    policies.write_text(HEADER + "policies: [{vfs: some}]\n")
    ran = rootport(command, "--topology", TOPOLOGY, "--nic-policies", policies)
    assert ran.code == 2
    assert f"{policies}:3: NicPolicies: policies[0].vfs: 'some' is not known: expected 'pooled' or 'named'" in ran.err
