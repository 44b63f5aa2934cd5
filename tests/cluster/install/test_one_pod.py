"""A claim whose network interface goes into a pod is held by one pod: on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import NODES, allocated_claim

pytestmark = pytest.mark.needs_go

_NAME = "install-one-pod"
_NIC = ("rootport.dev", NODES[0], "rdma-vfs-0000-40-00-0")
_GPU = ("rootport.dev", NODES[0], "gpu-0000-10-00-0")
_OTHER = ("example.com", NODES[0], "rdma-0000-40-00-0")
_CLASS = {"deviceClassName": "rdma.rootport.dev"}
_REQUESTS = [
    {"name": "gpu", "exactly": _CLASS},
    {"name": "nic", "firstAvailable": [{"name": "large", **_CLASS}]},
    {"name": "other", "exactly": _CLASS},
]
_REFUSED = "an interface is in one pod at a time"

Reserve = Callable[..., str]


def entry(*, source: str = "FromClaim", requests: tuple[str, ...] = (), **fields: object) -> dict[str, Any]:
    """A configuration entry of the allocation, which moves an interface where ``fields`` do not say otherwise."""
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig", "interface": {}} | fields
    opaque = {"driver": "rootport.dev", "parameters": parameters}
    return {"source": source, "requests": list(requests), "opaque": opaque}


def pods(*names: str) -> list[dict[str, str]]:
    return [{"resource": "pods", "name": name, "uid": f"uid-of-{name}"} for name in names]


@pytest.fixture
def reserve(installed: ControlPlane) -> Iterator[Reserve]:
    """Allocates the claim, reserves it for the pod a, and then for a and b; what kubectl says to the last."""

    def patch(status: dict[str, Any], *, check: bool = True) -> str:
        command = ("patch", "resourceclaim", _NAME, "--subresource=status", "--type=merge")
        return installed.kubectl(*command, f"--patch={json.dumps({'status': status})}", check=check)

    def reserve(*devices: tuple[str, str, str], config: tuple[dict[str, Any], ...], request: str = "gpu") -> str:
        body = allocated_claim(_NAME, NODES[0], *devices)
        body["spec"]["devices"]["requests"] = _REQUESTS
        status = body.pop("status")
        status["allocation"]["devices"]["config"] = list(config)
        for result in status["allocation"]["devices"]["results"]:
            result["request"] = request
        installed.kubectl("create", "--filename=-", input=json.dumps(body))
        patch(status | {"reservedFor": pods("a")})
        said = patch({"reservedFor": pods("a", "b")}, check=False)
        # Whoever holds it can always leave it.
        patch({"reservedFor": []})
        return said

    yield reserve
    patch({"allocation": None, "reservedFor": None}, check=False)
    installed.kubectl("delete", "resourceclaim", _NAME, "--ignore-not-found")


def test_a_second_pod_is_refused_where_an_interface_is_moved(reserve: Reserve) -> None:
    said = reserve(_NIC, config=(entry(),))
    assert _REFUSED in said
    assert "rootport-claim-one-pod" in said


@pytest.mark.parametrize(
    ("devices", "config"),
    [
        pytest.param((_NIC,), (), id="no-config"),
        pytest.param((_NIC,), (entry(interface=None),), id="interface-is-null"),
        pytest.param((_NIC,), (entry(requests=("other",)),), id="another-requests-config"),
        pytest.param((_NIC,), (entry(), entry(interface=None)), id="a-later-entry-counts"),
        pytest.param((_NIC,), (entry(interface=None), entry(source="FromClass")), id="the-claim-wins-over-the-class"),
        pytest.param((_GPU,), (entry(),), id="a-gpu-alone"),
        pytest.param((_OTHER,), (entry(),), id="another-drivers-nic"),
    ],
)
def test_pods_share_a_claim_whose_interface_stays_on_the_host(
    reserve: Reserve, devices: tuple[tuple[str, str, str], ...], config: tuple[dict[str, Any], ...]
) -> None:
    assert "patched" in reserve(*devices, config=config)


@pytest.mark.parametrize("requests", [("nic",), ("nic/large",)], ids=["request", "alternative"])
def test_an_entry_that_names_the_request_counts(reserve: Reserve, requests: tuple[str, ...]) -> None:
    assert _REFUSED in reserve(_GPU, _NIC, config=(entry(requests=requests),), request="nic/large")
