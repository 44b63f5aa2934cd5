"""Pods of opted-in namespaces are converted by a real API server, and nothing of them is left behind."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.admission.webhook import Webhook
from controller.conversion.collector import TemplateCollector
from controller.conversion.counts import ConversionCounter
from controller.conversion.lifetime import Lifetime
from driver.adapters.kubernetes.api import KubernetesApi
from tests.cluster.conversion.converting_cluster import ConvertingCluster, deployment, pod
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import start_controller
from tests.support.cluster.processes import Processes
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

Start = Callable[..., Webhook]
_QUICK = Lifetime(refresh_s=0.5, request_s=0.5, skew_s=1.0)
_CONTRADICTION = {"koordinator.sh/gpu": "50", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}


def claims_of(made: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made["spec"].get("resourceClaims", [])
    return found


def collected(kubeconfig: Path, counts: ConversionCounter) -> int:
    api = KubernetesApi.connect(kubeconfig=kubeconfig)
    return TemplateCollector(api, counts, lifetime=_QUICK).collect(threading.Event())


def test_fifty_replicas_share_a_template_and_leave_nothing_behind(
    cluster: ConvertingCluster, start: Start, counts: ConversionCounter, kubeconfig: Path
) -> None:
    start()
    before = counts.so_far().created
    cluster.create(deployment("train", 50))
    pods = eventually(
        "50 pods with claims",
        lambda: (
            len(found := cluster.get("pods")) == 50
            and all(item.get("status", {}).get("resourceClaimStatuses") for item in found)
            and found
        ),
        timeout_s=60,
    )
    names = {claim["resourceClaimTemplateName"] for item in pods for claim in claims_of(item)}
    (template,) = cluster.get("resourceclaimtemplates")
    assert names == {template["metadata"]["name"]}
    assert counts.so_far().created - before == 1
    for item in pods:
        (container,) = item["spec"]["containers"]
        assert "nvidia.com/gpu" not in json.dumps(container["resources"])
        assert [item["name"] for item in container["resources"]["claims"]] == [claims_of(item)[0]["name"]]
    claims = cluster.get("resourceclaims")
    assert len(claims) == 50
    assert {item["metadata"]["ownerReferences"][0]["kind"] for item in claims} == {"Pod"}
    assert {item["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] for item in claims} == {
        "gpu.rootport.dev"
    }
    assert collected(kubeconfig, counts) == 0  # in use, however old

    cluster.plane.kubectl("delete", "deployment", "train", f"--namespace={cluster.namespace}", "--wait=false")
    eventually("no pods", lambda: not cluster.get("pods"), timeout_s=60)
    eventually("no claims", lambda: not cluster.get("resourceclaims"), timeout_s=60)
    eventually("no template", lambda: collected(kubeconfig, counts) >= 0 and not cluster.get("resourceclaimtemplates"))


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        pytest.param({"nvidia.com/gpu": "8"}, {}, id="whole-gpus"),
        pytest.param({"nvidia.com/mig-1g.10gb": "2"}, {}, id="mig"),
        pytest.param({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}, {}, id="hami"),
        pytest.param(
            {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "20Gi"}, {}, id="koordinator-share"
        ),
        pytest.param({"kubernetes.io/gpu": "50"}, {}, id="koordinator-before-1.0"),
        pytest.param(
            {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"},
            {"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"]}'},
            id="koordinator-joint",
        ),
        pytest.param({"koordinator.sh/fpga": "100"}, {}, id="koordinator-fpga"),
        pytest.param(
            {"tke.cloud.tencent.com/qgpu-core": "30", "tke.cloud.tencent.com/qgpu-memory": "10"}, {}, id="tke-qgpu"
        ),
        pytest.param({"amd.com/gpu": "1"}, {}, id="amd"),
        pytest.param({"nvidia.com/gpu": "1", "rdma/hca_shared_devices_a": "1"}, {}, id="gpu-and-rdma"),
    ],
)
def test_what_is_made_of_each_dialect_is_taken_by_the_api_server(
    cluster: ConvertingCluster, start: Start, limits: dict[str, str], annotations: dict[str, str]
) -> None:
    start()
    said = cluster.said(pod("train", limits, annotations=annotations))
    (made,) = cluster.get("pods")
    assert claims_of(made), said
    names = {item["metadata"]["name"] for item in cluster.get("resourceclaimtemplates")}
    assert names == {claim["resourceClaimTemplateName"] for claim in claims_of(made)}
    eventually("the claims", lambda: len(cluster.get("resourceclaims")) == len(claims_of(made)))
    # Once more, as a replica: what is stored is recognized, in the API server's own words.
    cluster.said(pod("again", limits, annotations=annotations))
    assert len(cluster.get("pods")) == 2


def test_a_dry_run_shows_the_claims_and_creates_nothing(cluster: ConvertingCluster, start: Start) -> None:
    start()
    made = cluster.create(pod("dry"), "--dry-run=server")
    assert claims_of(made)
    assert cluster.get("resourceclaimtemplates") == []
    assert cluster.get("pods") == []


def test_a_generated_name_is_no_obstacle(cluster: ConvertingCluster, start: Start) -> None:
    start()
    made = cluster.create(pod("", generateName="train-"))
    (template,) = cluster.get("resourceclaimtemplates")
    assert claims_of(made)[0]["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_while_no_webhook_answers_other_pods_are_created_as_ever(cluster: ConvertingCluster, start: Start) -> None:
    start().stop()
    other = cluster.make_namespace(f"{cluster.namespace}-other", opted_in=False)
    assert claims_of(cluster.create(pod("device"), namespace=other)) == []
    cluster.create(pod("no-device", {"cpu": "1", "memory": "1Gi"}))
    # The conditions are CEL in the API server, which has a limit on its cost.
    large = pod("large")
    (container,) = large["spec"]["containers"]
    limits = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"}
    many = [container | {"name": f"c{at}", "resources": {"limits": limits}} for at in range(1000)]
    cluster.create(large | {"spec": {"containers": many}}, "--dry-run=server")
    assert 'failed calling webhook "pods.convert.rootport.dev"' in cluster.said(pod("device"))
    assert [item["metadata"]["name"] for item in cluster.get("pods")] == ["no-device"]
    cluster.plane.kubectl("delete", "namespace", other, "--wait=false")


def test_pods_of_other_namespaces_stay_as_they_are(cluster: ConvertingCluster, start: Start) -> None:
    start()
    other = cluster.make_namespace(f"{cluster.namespace}-other", opted_in=False)
    made = cluster.create(pod("as-it-is"), namespace=other)
    assert claims_of(made) == []
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    cluster.plane.kubectl("delete", "namespace", other, "--wait=false")


def test_a_pod_that_cannot_be_converted_is_denied_with_container_field_and_advice(
    cluster: ConvertingCluster, start: Start, counts: ConversionCounter
) -> None:
    start()
    said = cluster.said(pod("wrong", _CONTRADICTION))
    assert 'The Pod "wrong" is invalid' in said
    assert "spec.containers[0].resources.limits[koordinator.sh/gpu" in said
    assert "container 'main': " in said
    assert cluster.get("pods") == []
    assert cluster.get("resourceclaimtemplates") == []
    assert counts.so_far().pods["refused"] == 1


def test_by_an_option_it_is_admitted_as_it_is_with_warnings(cluster: ConvertingCluster, start: Start) -> None:
    start(on_refusal="admit")
    said = cluster.said(pod("wrong", _CONTRADICTION))
    assert "Warning: not converted: spec.containers[0].resources.limits[koordinator.sh/gpu" in said
    (made,) = cluster.get("pods")
    assert claims_of(made) == []


def test_what_a_converted_pod_does_not_get_is_a_warning(cluster: ConvertingCluster, start: Start) -> None:
    start()
    body = pod("noted", {"koordinator.sh/gpu": "50"})
    body["spec"]["schedulerName"] = "koord-scheduler"
    said = cluster.said(body)
    assert "Warning: spec.schedulerName: " in said
    (made,) = cluster.get("pods")
    assert claims_of(made)
    assert made["spec"]["schedulerName"] == "default-scheduler"


def test_a_template_that_somebody_put_under_the_name_is_not_used(cluster: ConvertingCluster, start: Start) -> None:
    start()
    name = claims_of(cluster.create(pod("dry"), "--dry-run=server"))[0]["resourceClaimTemplateName"]
    squatter = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "labels": {"rootport.dev/converted": "webhook"}},
        "spec": {
            "spec": {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": "fpga.rootport.dev"}}]}}
        },
    }
    cluster.create(squatter)
    for options in ((), ("--dry-run=server",)):
        said = cluster.said(pod("train"), *options)
        assert f"ResourceClaimTemplate {cluster.namespace}/{name} is not what this pod asks for" in said
        assert f"kubectl --namespace={cluster.namespace} delete resourceclaimtemplate {name}" in said
    assert cluster.get("pods") == []
    cluster.plane.kubectl("delete", "resourceclaimtemplate", name, f"--namespace={cluster.namespace}")
    assert claims_of(cluster.create(pod("train")))[0]["resourceClaimTemplateName"] == name


def test_reviews_are_taken_from_the_path_alone_that_api_servers_know(cluster: ConvertingCluster, start: Start) -> None:
    webhook = start()
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "namespace": cluster.namespace, "object": pod("forged")},
    }
    known = cluster.hook()["clientConfig"]["url"].rpartition("/")[2]

    def answer(path: str) -> int:
        context = ssl._create_unverified_context()
        url = f"https://127.0.0.1:{webhook.port}{path}"
        request = urllib.request.Request(url, data=json.dumps(review).encode(), method="POST")
        try:
            with urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            ).open(request, timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    for path in ("/convert", "/convert/", f"/convert/{known}x", f"/convert/{known[:-1]}", f"/convert/x/{known}"):
        assert answer(path) == 404
    assert cluster.get("resourceclaimtemplates") == []
    assert answer(f"/convert/{known}") == 200


def test_the_controller_converts_and_collects_with_its_own_rights(cluster: ConvertingCluster, tmp_path: Path) -> None:
    port = free_port()
    processes = Processes(tmp_path)
    try:
        controller = start_controller(
            cluster.plane,
            processes,
            f"--https-port={port}",
            "--webhook",
            "--webhook-host=127.0.0.1",
            "--convert",
            "--log-level=debug",
            module="tests.support.quick_collector",
        )
        cluster.send_to(port)
        assert claims_of(cluster.create(pod("train")))
        log = controller.log.read_text
        eventually("the leader", lambda: "looking at everything" in log())
        assert len(cluster.get("resourceclaimtemplates")) == 1
        cluster.plane.kubectl("delete", "pod", "train", f"--namespace={cluster.namespace}", "--now")
        eventually("no template", lambda: not cluster.get("resourceclaimtemplates"), timeout_s=60)
        eventually("no claim", lambda: not cluster.get("resourceclaims"), timeout_s=60)
        path = cluster.hook()["clientConfig"]["url"].rpartition("/")[2]
        assert controller.stop() == 0
    finally:
        processes.stop()
    assert "Traceback" not in log()
    assert path not in log()


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        pytest.param({}, "", id="one-of-a-converted-pod"),
        pytest.param({"namespace": "default"}, "rootport.dev/convert=enabled alone", id="another-namespace"),
        pytest.param({"labels": {}}, "rootport.dev/converted=webhook alone", id="without-the-label"),
        pytest.param({"name": "other"}, "whose names begin with rootport-", id="another-name"),
    ],
)
def test_the_controller_may_create_templates_of_converted_pods_alone(
    cluster: ConvertingCluster, kubeconfig: Path, change: dict[str, Any], refusal: str
) -> None:
    metadata = {
        "name": "rootport-0123456789ab",
        "namespace": cluster.namespace,
        "labels": {"rootport.dev/converted": "webhook"},
    } | change
    said = _create(cluster.plane, kubeconfig, metadata)
    assert refusal in said if refusal else "created" in said, said


@pytest.mark.parametrize("label", ["true", "webhook"])
def test_the_controller_may_change_and_delete_these_alone(
    cluster: ConvertingCluster, kubeconfig: Path, label: str
) -> None:
    name = "rootport-0123456789ab"
    metadata = {"name": name, "namespace": cluster.namespace, "labels": {"rootport.dev/converted": label}}
    _create(cluster.plane, cluster.plane.kubeconfig, metadata)
    place = ("resourceclaimtemplate", name, f"--namespace={cluster.namespace}")

    def tried(verb: str, *options: str) -> str:
        return cluster.plane.kubectl(verb, *place, *options, kubeconfig=kubeconfig, check=False)

    other = '{"metadata": {"annotations": {"example.com/a": "b"}}}'
    used = '{"metadata": {"annotations": {"rootport.dev/last-used": "2026-01-01T00:00:00Z"}}}'
    assert "nothing else of it" in tried("patch", "--type=merge", f"--patch={other}") or label == "true"
    for verb, *options in (("patch", "--type=merge", f"--patch={used}"), ("delete",)):
        said = tried(verb, *options)
        assert ("rootport.dev/converted=webhook alone" in said) == (label == "true"), said


def _create(plane: ControlPlane, kubeconfig: Path, metadata: dict[str, Any]) -> str:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    return plane.kubectl("create", "--filename=-", kubeconfig=kubeconfig, input=json.dumps(body), check=False)
