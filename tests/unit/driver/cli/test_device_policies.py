"""``--device-policies`` of the command line: what is published, chosen, told of and found by lint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPO
from tests.support.topologies import machine_file

Run = Callable[..., Any]

TOPOLOGY = str(machine_file("rccl-4p4h"))
HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: DevicePolicies\n"
RULES = """\
policies:
- rdmaDevices: ["mlx5_6"]
  attributes: {example.com/role: storage}
- types: [rdma]
  attributes: {example.com/role: compute}
- rdmaDevices: ["mlx5_7"]
  offer: false
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: by-role}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: rdma.rootport.dev
        selectors:
        - cel: {expression: 'device.attributes["example.com"].ROLE == "storage"'}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    file = tmp_path / "policies.yaml"
    file.write_text(HEADER + RULES)
    return file


def test_slices_are_by_the_policies_of_the_file_and_notes_tell_what_lost(rootport: Run, policies: Path) -> None:
    plain = json.loads(rootport("slices", "--topology", TOPOLOGY, "-o", "json").out)
    ran = rootport("slices", "--topology", TOPOLOGY, "-o", "json", "--device-policies", policies)
    assert ran.code == 0

    def nics(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
        devices = [device for item in found["items"] for device in item["spec"].get("devices", ())]
        kinds = ((device, device["attributes"]) for device in devices)
        return {values["rdmaDevice"]["string"]: values for _, values in kinds if "rdmaDevice" in values}

    assert set(nics(plain)) - set(nics(json.loads(ran.out))) == {"mlx5_7"}
    roles = {name: values["example.com/role"]["string"] for name, values in nics(json.loads(ran.out)).items()}
    assert roles.pop("mlx5_6") == "storage"
    assert set(roles.values()) == {"compute"}
    assert "note: not published (the DevicePolicies keep it off the offer): rdma-" in ran.err
    assert "note: example.com/role: storage of policies[0] wins over compute of policies[1] (rdma-" in ran.err


def test_claims_choose_by_the_attributes(rootport: Run, policies: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(CLAIM.replace("ROLE", "role"))
    given = ("--topology", TOPOLOGY, "--claims", claims, "--device-policies", policies, "-o", "json")
    (claim,) = json.loads(rootport("simulate", *given).out)["claims"]
    slices = json.loads(rootport("slices", "--topology", TOPOLOGY, "-o", "json", "--device-policies", policies).out)
    devices = {device["name"]: device for item in slices["items"] for device in item["spec"].get("devices", ())}
    assert devices[claim["devices"][0]["device"]]["attributes"]["rdmaDevice"] == {"string": "mlx5_6"}


def test_lint_finds_a_misspelled_attribute_of_the_policies(rootport: Run, policies: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(CLAIM.replace("ROLE", "rolle"))
    ran = rootport("lint", claims, "--topology", TOPOLOGY, "--device-policies", policies)
    assert ran.code == 1
    assert "did you mean" in ran.out
    assert "role" in ran.out.partition("did you mean")[2]
    claims.write_text(CLAIM.replace("ROLE", "role").replace("storage", "storrage"))
    ran = rootport("lint", claims, "--topology", TOPOLOGY, "--device-policies", policies)
    assert "storage" in ran.out
    claims.write_text(CLAIM.replace("ROLE", "role"))
    assert rootport("lint", claims, "--topology", TOPOLOGY, "--device-policies", policies).code == 0


def test_a_mistake_in_the_file_is_told_with_its_line(rootport: Run, policies: Path) -> None:
    policies.write_text(HEADER + "policies:\n- offer: false\n- ifName: [eth0]\n  offer: false\n")
    ran = rootport("slices", "--topology", TOPOLOGY, "--device-policies", policies)
    assert ran.code != 0
    assert f"{policies}:5: DevicePolicies: policies[1].ifName: unknown field; did you mean ifNames?" in ran.err


def test_the_example_is_right(rootport: Run) -> None:
    example = REPO / "examples/policies/device-policies.yaml"
    claims = REPO / "examples/nic-by-role.yaml"
    ran = rootport("lint", claims, "--topology", TOPOLOGY, "--device-policies", example)
    assert "unknown field" not in ran.err
    assert rootport("slices", "--topology", TOPOLOGY, "--device-policies", example).code == 0


def test_the_example_gives_the_machine_that_it_names_a_nic_of_each_role(rootport: Run) -> None:
    example = REPO / "examples/policies/device-policies.yaml"
    machine = REPO / "examples/machines/azure-nd-h100-v5.yaml"
    claims = REPO / "examples/nic-by-role.yaml"
    given = ("--topology", machine, "--device-policies", example)
    assert rootport("lint", claims, *given, "--strict").code == 0
    assert rootport("simulate", *given, "--claims", claims).code == 0
