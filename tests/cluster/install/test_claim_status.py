"""A node's plugin says what it prepared, in its own entries of claims on its own node: on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, JsonObject
from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import NODES, allocated_claim

pytestmark = pytest.mark.needs_go
GRANULAR = pytest.mark.since_kubernetes(
    36, "the API server itself refuses it (DRAResourceClaimGranularStatusAuthorization)"
)
EXTRA = pytest.mark.since_kubernetes(35, "kubectl has --as-user-extra")

_MINE, _OTHER = NODES
_PLUGIN = "rootport-kubelet-plugin"
_NAME = "install-status"
_MASTERS = "--as-group=system:masters"
_AS_PLUGIN = f"--as=system:serviceaccount:rootport-system:{_PLUGIN}"
_OURS = ("rootport.dev", _MINE, "gpu-0")
_THEIRS = ("example.com", _MINE, "nic-0")
_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Up",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}

TokenOf = Callable[..., Path]


@pytest.fixture
def claim_on(installed: ControlPlane) -> Iterator[Callable[..., JsonObject]]:
    """Makes an allocated claim, with another driver's entry in its status where that has a device."""

    def make(node: str, *devices: tuple[str, str, str]) -> JsonObject:
        body = allocated_claim(_NAME, node, *devices)
        entries = [
            {"driver": driver, "pool": pool, "device": device, "conditions": [_CONDITION]}
            for driver, pool, device in devices
            if driver != "rootport.dev"
        ]
        installed.kubectl("create", "--filename=-", input=json.dumps(body))
        patch = {"status": body["status"] | {"devices": entries}}
        text = _patch(installed, patch, "--output=json")
        made: JsonObject = json.loads(text)
        return made

    yield make
    installed.kubectl("delete", "resourceclaim", _NAME, "--ignore-not-found")


def _patch(plane: ControlPlane, patch: dict[str, Any], *argv: str, check: bool = True) -> str:
    command = ("patch", "resourceclaim", _NAME, "--subresource=status", "--type=merge")
    return plane.kubectl(*command, f"--patch={json.dumps(patch)}", *argv, check=check)


def _entry(device: tuple[str, str, str] = _OURS) -> dict[str, Any]:
    driver, pool, name = device
    return {"driver": driver, "pool": pool, "device": name, "data": {"kind": "PreparedDevice"}}


def _write_devices(kubeconfig: Path, *entries: dict[str, Any], uid: str | None = None) -> JsonObject:
    metadata = {"name": _NAME, "namespace": "default"} | ({"uid": uid} if uid else {})
    with KubernetesApi.connect(kubeconfig=kubeconfig) as api:
        body = {"metadata": metadata, "status": {"devices": list(entries)}}
        return api.apply(RESOURCE_CLAIMS, body, field_manager="rootport-claim-status", subresource="status")


def test_a_plugin_tells_of_its_own_devices_and_leaves_others_entries_alone(
    token_of: TokenOf, claim_on: Callable[..., JsonObject]
) -> None:
    claim_on(_MINE, _OURS, _THEIRS)
    told = _write_devices(token_of(_PLUGIN, _MINE), _entry())["status"]["devices"]
    by_driver = {entry["driver"]: entry for entry in told}
    assert by_driver["rootport.dev"]["data"] == {"kind": "PreparedDevice"}
    assert by_driver["example.com"]["conditions"] == [_CONDITION]
    # To tell the same again changes nothing; to tell nothing takes back what was told, and that alone.
    before = _write_devices(token_of(_PLUGIN, _MINE), _entry())["metadata"]["resourceVersion"]
    assert _write_devices(token_of(_PLUGIN, _MINE), _entry())["metadata"]["resourceVersion"] == before
    told = _write_devices(token_of(_PLUGIN, _MINE))["status"]["devices"]
    assert [entry["driver"] for entry in told] == ["example.com"]


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param((_OTHER, ("rootport.dev", _OTHER, "gpu-0")), id="claim of another node"),
        pytest.param((_OTHER, _OURS), id="our pool, but allocated elsewhere"),
    ],
)
@GRANULAR
def test_a_plugin_tells_nothing_of_a_claim_on_another_node(
    token_of: TokenOf, claim_on: Callable[..., JsonObject], devices: tuple[str, tuple[str, str, str]]
) -> None:
    node, device = devices
    claim_on(node, device)
    with pytest.raises(InvalidError, match="arbitrary-node:patch"):
        _write_devices(token_of(_PLUGIN, _MINE), _entry(device))


@GRANULAR
def test_a_plugin_tells_nothing_for_another_driver(token_of: TokenOf, claim_on: Callable[..., JsonObject]) -> None:
    claim_on(_MINE, _OURS, _THEIRS)
    with pytest.raises(InvalidError, match="resourceclaims/driver"):
        _write_devices(token_of(_PLUGIN, _MINE), _entry(_THEIRS))


@pytest.mark.parametrize("field", ["allocation", "reservedFor"])
@EXTRA
def test_a_plugin_cannot_decide_who_uses_what(
    installed: ControlPlane, token_of: TokenOf, claim_on: Callable[..., JsonObject], field: str
) -> None:
    claim_on(_MINE, _OURS)
    consumer = {"resource": "pods", "name": "mine", "uid": "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69"}
    patch = {"status": {field: None if field == "allocation" else [consumer]}}
    said = _patch(installed, patch, f"--kubeconfig={token_of(_PLUGIN, _MINE)}", check=False)
    assert "Forbidden" in said or "forbidden" in said
    # Before 1.36 the API server lets everybody change it who may patch the status: the policy does not.
    extra = f"--as-user-extra=authentication.kubernetes.io/node-name={_MINE}"
    said = _patch(installed, patch, _AS_PLUGIN, _MASTERS, extra, check=False)
    assert "may not change a claim's allocation and consumers" in said


@pytest.mark.parametrize(
    ("device", "extra", "reason"),
    [
        (_THEIRS, _MINE, "may change entries of status.devices for devices of driver rootport.dev in pool"),
        (("rootport.dev", _OTHER, "gpu-0"), _MINE, "may change entries of status.devices for devices of driver"),
        (_OURS, None, "is not of a node"),
    ],
    ids=["another driver's entry", "another node's entry", "a token of no node"],
)
@EXTRA
def test_the_policy_says_so_to_api_servers_that_do_not_know_it(
    installed: ControlPlane,
    claim_on: Callable[..., JsonObject],
    device: tuple[str, str, str],
    extra: str | None,
    reason: str,
) -> None:
    claim_on(_MINE, device)
    user = [_AS_PLUGIN, _MASTERS]
    if extra is not None:
        user.append(f"--as-user-extra=authentication.kubernetes.io/node-name={extra}")
    said = _patch(installed, {"status": {"devices": [_entry(device)]}}, *user, check=False)
    assert "rootport-claim-status" in said
    assert reason in said


@EXTRA
def test_a_plugin_writes_nothing_of_a_claim_but_its_status(installed: ControlPlane) -> None:
    extra = f"--as-user-extra=authentication.kubernetes.io/node-name={_MINE}"
    body = json.dumps(allocated_claim("install-made", _MINE))
    said = installed.kubectl("create", "--filename=-", _AS_PLUGIN, _MASTERS, extra, input=body, check=False)
    assert "writes the status of ResourceClaims alone" in said


def test_others_write_status_as_ever(installed: ControlPlane, claim_on: Callable[..., JsonObject]) -> None:
    claim_on(_OTHER, _OURS)
    assert "patched" in _patch(installed, {"status": {"devices": [_entry()]}})


def test_deallocation_takes_the_entries_away(
    installed: ControlPlane, token_of: TokenOf, claim_on: Callable[..., JsonObject]
) -> None:
    claim_on(_MINE, _OURS)
    _write_devices(token_of(_PLUGIN, _MINE), _entry())
    after = json.loads(_patch(installed, {"status": {"allocation": None}}, "--output=json"))
    assert "devices" not in after.get("status", {})
    with pytest.raises(InvalidError, match="must be an allocated device in the claim"):
        _write_devices(token_of(_PLUGIN, _MINE), _entry())


def test_another_claim_of_the_same_name_is_not_told_of(
    installed: ControlPlane, token_of: TokenOf, claim_on: Callable[..., JsonObject]
) -> None:
    claim_on(_MINE, _OURS)
    with pytest.raises(InvalidError, match="uid: Invalid value"):
        _write_devices(token_of(_PLUGIN, _MINE), _entry(), uid="7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69")
    installed.kubectl("delete", "resourceclaim", _NAME)
    with pytest.raises(NotFoundError):
        _write_devices(token_of(_PLUGIN, _MINE), _entry())
