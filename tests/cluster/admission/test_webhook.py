"""What users are told of their mistakes by the webhook, on a real API server."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.admission.rotation import Lifetimes
from controller.admission.webhook import Webhook
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import InvalidError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from tests.cluster.admission.reviewed_cluster import Cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import start_controller
from tests.support.cluster.processes import Processes
from tests.support.installation import claim
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go
AMOUNTS = pytest.mark.since_kubernetes(36, "the API server drops a claim's amounts (DRAConsumableCapacity is off)")

_API = "rootport.dev/v1alpha1"
_CONFIG = "spec.devices.config[0].opaque.parameters"
_WRONG = {
    "apiVersion": _API,
    "kind": "GpuConfig",
    "sharing": {"strategy": "mps", "mps": {"activeThreadPercentage": 200, "cores": 3}},
}
_SHARE = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev", "capacity": {"requests": {"core": 0}}}}
_THREE = (
    "spec.devices.requests[0].exactly.capacity.requests[core]: 0 is not a percentage",
    f"{_CONFIG}.sharing.mps.activeThreadPercentage: ",
    f"{_CONFIG}.sharing.mps.cores: unknown field; known are activeThreadPercentage, pinnedDeviceMemoryLimit",
)

Start = Callable[..., Webhook]


def wrong_claim(name: str = "wrong", kind: str = "ResourceClaim") -> dict[str, Any]:
    return claim(name, _SHARE, config=(_WRONG,), kind=kind)


def device_class(name: str, parameters: dict[str, Any], driver: str = "rootport.dev") -> dict[str, Any]:
    config = [{"opaque": {"driver": driver, "parameters": parameters}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"config": config},
    }


@AMOUNTS
def test_a_claim_with_three_mistakes_is_refused_with_three_paths(cluster: Cluster, start: Start) -> None:
    start()
    said = cluster.until_made(wrong_claim(), 'The ResourceClaim "wrong" is invalid')
    for path in _THREE:
        assert f"* {path}" in said


@AMOUNTS
def test_the_refusal_is_one_message_for_programs(cluster: Cluster, start: Start) -> None:
    start()
    cluster.until_made(wrong_claim(), "is invalid")
    with KubernetesApi.connect(kubeconfig=cluster.plane.kubeconfig) as api, pytest.raises(InvalidError) as refused:
        api.create(RESOURCE_CLAIMS, wrong_claim(), dry_run=True)
    assert (
        'admission webhook "claims.rootport.dev" denied the request: ResourceClaim default/wrong has 3 mistakes in '
        f"what it says to rootport.dev: {_THREE[0]}"
    ) in refused.value.message
    assert len(refused.value.causes) == len(_THREE)


@AMOUNTS
def test_a_template_is_checked_like_its_claims(cluster: Cluster, start: Start) -> None:
    start()
    said = cluster.until_made(wrong_claim(kind="ResourceClaimTemplate"), "is invalid")
    for path in _THREE:
        assert f"* spec.{path}" in said


def test_a_class_is_checked_when_it_is_made_and_when_it_is_changed(cluster: Cluster, start: Start) -> None:
    start()
    said = cluster.until_made(device_class("admission-wrong", _WRONG), "is invalid")
    assert "spec.config[0].opaque.parameters.sharing.mps.cores" in said
    right = {"apiVersion": _API, "kind": "RdmaConfig", "vf": {"vlan": 7}}
    cluster.plane.kubectl("apply", "--filename=-", input=json.dumps(device_class("admission-right", right)))
    try:
        changed = device_class("admission-right", right | {"vf": {"vlan": 7000}})
        said = cluster.plane.kubectl("apply", "--filename=-", input=json.dumps(changed), check=False)
        assert "spec.config[0].opaque.parameters.vf.vlan" in said
    finally:
        cluster.plane.kubectl("delete", "deviceclass", "admission-right")


def test_a_setting_for_administrators_is_refused_in_a_claim(cluster: Cluster, start: Start) -> None:
    start()
    body = claim("vlan", config=({"apiVersion": _API, "kind": "RdmaConfig", "vf": {"vlan": 7}},))
    assert f"{_CONFIG}.vf: is for administrators" in cluster.until_made(body, "is invalid")


def test_what_is_right_or_none_of_our_business_is_taken(cluster: Cluster, start: Start) -> None:
    start()
    cluster.until_made(wrong_claim(), "is invalid")
    right = {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "timeSlicing"}}
    assert "created" in cluster.made(claim("right", config=(right,)))
    assert "created" in cluster.made(device_class("others", _WRONG, driver="gpu.example.com"))
    other = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    assert "created" in cluster.made(claim("others", other, config=(_WRONG,), driver="gpu.example.com"))


def test_what_was_made_while_the_webhook_was_away_can_be_labelled_and_deleted(cluster: Cluster, start: Start) -> None:
    plane = cluster.plane
    body = wrong_claim("from-before")
    body["metadata"]["finalizers"] = ["example.com/kept"]
    plane.kubectl("create", "--filename=-", input=json.dumps(body))
    start()
    cluster.until_made(wrong_claim(), "is invalid")
    plane.kubectl("label", "resourceclaim", "from-before", "a=b")
    plane.kubectl("delete", "resourceclaim", "from-before", "--wait=false")
    plane.kubectl(
        "patch",
        "resourceclaim",
        "from-before",
        "--type=json",
        '--patch=[{"op": "remove", "path": "/metadata/finalizers"}]',
    )
    assert "from-before" not in plane.kubectl("get", "resourceclaims", "--output=name")


def test_with_the_controller_away_ignore_takes_claims_and_fail_refuses_those_for_rootport(
    cluster: Cluster, start: Start
) -> None:
    start().stop()
    assert [hook["failurePolicy"] for hook in cluster.hooks()] == ["Ignore", "Ignore"]
    cluster.until_made(wrong_claim(), "created")
    webhook = start(failure_policy="Fail")
    cluster.until_made(wrong_claim(), "is invalid")
    assert [hook["failurePolicy"] for hook in cluster.hooks()] == ["Fail", "Fail"]
    webhook.stop()
    assert "failed calling webhook" in cluster.made(claim("right"))
    other = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    assert "created" in cluster.made(claim("others", other))
    start()
    cluster.until_made(claim("right"), "created")


def test_applying_the_manifests_again_keeps_what_the_controller_added(
    cluster: Cluster, start: Start, kustomized: Callable[..., str], plane: ControlPlane
) -> None:
    start(failure_policy="Fail")
    cluster.send_to_the_service()  # as installed
    before, secret = cluster.hooks()[0]["clientConfig"]["caBundle"], cluster.secret()
    text = kustomized(plane, "webhook")
    kept = [part for part in text.split("\n---\n") if "\nkind: Secret\n" in part or "WebhookConfiguration" in part]
    assert len(kept) == 2
    plane.kubectl("apply", "--filename=-", input="\n---\n".join(kept))
    assert cluster.secret() == secret
    assert cluster.hooks()[0]["clientConfig"]["caBundle"] == before
    eventually("the failure policy", lambda: [hook["failurePolicy"] for hook in cluster.hooks()] == ["Fail", "Fail"])


@AMOUNTS
def test_a_certificate_is_renewed_without_a_failed_review(cluster: Cluster, start: Start, quick: Lifetimes) -> None:
    other = start(lifetimes=quick, failure_policy="Fail")  # makes and shows certificates as well
    asked = start(lifetimes=quick, failure_policy="Fail")
    cluster.until_made(wrong_claim(), "is invalid")
    first = cluster.secret()["tls.crt"]
    said: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            said.append(cluster.made(wrong_claim()))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        eventually("the next certificate", lambda: "next.crt" in cluster.secret())
        second = eventually("its turn", lambda: (now := cluster.secret()["tls.crt"]) != first and now)
        eventually("another one", lambda: cluster.secret()["tls.crt"] not in (first, second))
    finally:
        stop.set()
        thread.join()
    assert len(said) > 5
    eventually("one certificate", lambda: _shown(other.port) == _shown(asked.port))
    assert all("is invalid" in text for text in said), next(text for text in said if "is invalid" not in text)


def test_two_replicas_show_one_certificate(cluster: Cluster, start: Start) -> None:
    first, second = start(), start()
    bundle = cluster.hooks()[0]["clientConfig"]["caBundle"]
    assert bundle == cluster.secret()["ca.crt"]
    assert _shown(first.port) == _shown(second.port)
    for webhook in (first, second):
        cluster.send_to(webhook.port)
        cluster.until_made(wrong_claim(), "is invalid")


def _shown(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_a_secret_that_was_emptied_is_filled_again_and_the_webhook_configured(cluster: Cluster, start: Start) -> None:
    webhook = start()
    first = cluster.secret()["tls.crt"]
    cluster.forget()
    eventually("another certificate", lambda: cluster.secret().get("tls.crt", first) != first)
    cluster.send_to(webhook.port)
    cluster.until_made(wrong_claim(), "is invalid")


def test_a_mistake_of_ours_ends_no_renewals(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start()
    first = cluster.secret()["tls.crt"]

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("controller.admission.certificate_keeper.decide", fail)
    eventually("the log", lambda: "unexpected error" in caplog.text)
    monkeypatch.undo()
    cluster.forget()
    eventually("another certificate", lambda: cluster.secret().get("tls.crt", first) != first)
    assert "PRIVATE KEY" not in caplog.text


def test_the_controller_serves_the_webhook_with_its_own_rights(cluster: Cluster, tmp_path: Path) -> None:
    port = free_port()
    processes = Processes(tmp_path)
    try:
        controller = start_controller(
            cluster.plane,
            processes,
            f"--https-port={port}",
            "--webhook",
            "--webhook-host=127.0.0.1",
            "--webhook-failure-policy=Fail",
            "--log-level=debug",
        )
        cluster.send_to(port)
        cluster.until_made(wrong_claim(), "is invalid")
        key = cluster.secret()["tls.key"]
        assert controller.stop() == 0
    finally:
        processes.stop()
    log = controller.log.read_text()
    assert "Traceback" not in log
    assert "PRIVATE KEY" not in log
    assert key not in log
