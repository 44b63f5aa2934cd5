"""Reading a claim: whose fault it is when that fails, asked of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError
from kubeletplugin.claims.preparer import ClaimGoneError
from kubeletplugin.claims.reader import ClaimReader
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.preparer.machine import Machine, failed, gpu_claim

NAMESPACE = "preparer-claims"
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "train", "namespace": NAMESPACE},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}]}},
}


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[KubernetesApi]:
    control_plane.kubectl("create", "namespace", NAMESPACE, check=False)
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig) as api:
        yield api


@pytest.fixture
def stored(control_plane: ControlPlane, api: KubernetesApi) -> Iterator[ClaimReference]:
    control_plane.kubectl("create", "--filename=-", input=json.dumps(CLAIM))
    uid = api.get(RESOURCE_CLAIMS, "train", namespace=NAMESPACE)["metadata"]["uid"]
    yield ClaimReference(namespace=NAMESPACE, name="train", uid=uid)
    control_plane.kubectl("delete", "resourceclaim", "train", f"--namespace={NAMESPACE}", "--ignore-not-found")


@pytest.mark.needs_go
def test_a_claim_is_read_as_the_api_server_has_it(api: KubernetesApi, stored: ClaimReference) -> None:
    claim = ClaimReader(api)(stored)
    assert claim.reference == stored
    assert [request.name for request in claim.spec.devices.requests] == ["gpu"]


@pytest.mark.needs_go
def test_a_claim_that_was_deleted_is_gone(
    api: KubernetesApi, stored: ClaimReference, control_plane: ControlPlane
) -> None:
    control_plane.kubectl("delete", "resourceclaim", "train", f"--namespace={NAMESPACE}")
    with pytest.raises(ClaimGoneError) as caught:
        ClaimReader(api)(stored)
    assert caught.value.message == f"claim {stored} was deleted"


@pytest.mark.needs_go
def test_a_claim_that_was_recreated_under_the_same_name_is_gone(
    api: KubernetesApi, stored: ClaimReference, control_plane: ControlPlane
) -> None:
    control_plane.kubectl("delete", "resourceclaim", "train", f"--namespace={NAMESPACE}")
    control_plane.kubectl("create", "--filename=-", input=json.dumps(CLAIM))
    with pytest.raises(ClaimGoneError, match="deleted and recreated under the same name: it now has UID ") as caught:
        ClaimReader(api)(stored)
    assert str(stored) in caught.value.message


@pytest.mark.needs_go
def test_a_service_account_without_the_right_is_told_and_the_claim_is_not_gone(
    stored: ClaimReference, control_plane: ControlPlane
) -> None:
    control_plane.kubectl("create", "serviceaccount", "nobody", f"--namespace={NAMESPACE}", check=False)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, "nobody")
    with KubernetesApi.connect(kubeconfig=kubeconfig) as api, pytest.raises(NodeError) as caught:
        ClaimReader(api)(stored)
    assert f"claim {stored} cannot be read: " in caught.value.message
    assert "forbidden" in caught.value.message


@pytest.mark.needs_go
def test_a_claim_is_not_gone_where_the_server_does_not_serve_the_api(
    api: KubernetesApi, stored: ClaimReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeletplugin.claims.reader.RESOURCE_CLAIMS", replace(RESOURCE_CLAIMS, version="v9"))
    with pytest.raises(NodeError, match="the server could not find the requested resource") as caught:
        ClaimReader(api)(stored)
    assert str(stored) in caught.value.message


@pytest.mark.needs_go
def test_an_api_server_that_ends_during_prepare_leaves_nothing_and_the_retry_works(
    cluster_binaries: Binaries, tmp_path: Path
) -> None:
    with ControlPlane(tmp_path / "plane", cluster_binaries) as plane:
        allocated = gpu_claim(1).to_wire() | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        spec = CLAIM["spec"]
        namespace = allocated["metadata"]["namespace"]
        plane.kubectl("create", "namespace", namespace)
        body = {**CLAIM, "metadata": {"name": "claim-1", "namespace": namespace}, "spec": spec}
        plane.kubectl("create", "--filename=-", input=json.dumps(body))
        status = {"status": allocated["status"]}
        status["status"]["allocation"]["devices"]["results"][0]["request"] = "gpu"
        plane.kubectl(
            "patch",
            "resourceclaim",
            "claim-1",
            f"--namespace={namespace}",
            "--subresource=status",
            "--type=merge",
            f"--patch={json.dumps(status)}",
        )
        with KubernetesApi.connect(kubeconfig=plane.kubeconfig, timeout_s=2) as api:
            uid = api.get(RESOURCE_CLAIMS, "claim-1", namespace=namespace)["metadata"]["uid"]
            claim = ClaimReference(namespace=namespace, name="claim-1", uid=uid)
            machine = Machine(tmp_path / "machine")
            machine.get_claim = ClaimReader(api)  # type: ignore[method-assign]
            preparer = machine.preparer()
            plane.stop_api_server()
            error = failed(preparer.prepare([claim])[uid])
            assert f"claim {claim} cannot be read, since the API server is away" in error.message
            assert error.hint == "nothing was prepared; the kubelet retries"
            assert error.retry_helps
            assert machine.check() == set()
            plane.start_api_server()
            answer = preparer.prepare([claim])[uid]
            assert not isinstance(answer, Exception), answer
            plane.stop_api_server()
            assert preparer.prepare([claim]) == {uid: answer}
            assert preparer.unprepare([claim]) == {uid: None}
            assert machine.check() == set()


# Answers that no API server of today gives
