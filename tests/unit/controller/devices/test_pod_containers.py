"""Which containers of a pod use a claim: what a pod says, and that it is asked for once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from controller.devices.pod_containers import PodContainers, container_uses
from driver.adapters.kubernetes.api import KubernetesApi
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer


def container(name: str, *claims: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": {"claims": list(claims)}}


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "team", "uid": "pod-uid"},
    "spec": {
        "resourceClaims": [
            {"name": "mine", "resourceClaimName": "one"},
            {"name": "made", "resourceClaimTemplateName": "template"},
            {"name": "late", "resourceClaimTemplateName": "template"},
        ],
        "initContainers": [container("init", {"name": "mine"})],
        "containers": [
            container("both", {"name": "mine", "request": "gpu"}, {"name": "made"}),
            container("late", {"name": "late"}),
            {"name": "none"},
        ],
    },
    "status": {
        "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "p-made-x7x7"}, {"name": "late"}],
        "extendedResourceClaimStatus": {
            "resourceClaimName": "extended",
            "requestMappings": [{"containerName": "none", "resourceName": "example.com/gpu", "requestName": "c-0"}],
        },
    },
}


def test_containers_name_their_claims_by_spec_template_and_extended_resource() -> None:
    assert list(container_uses(POD)) == [
        ("one", "", "init"),
        ("one", "gpu", "both"),
        ("p-made-x7x7", "", "both"),
        ("extended", "c-0", "none"),
    ]


def test_a_pod_without_claims_has_no_uses() -> None:
    assert list(container_uses({"metadata": {"uid": "u"}})) == []


class Pods(BaseHTTPRequestHandler):
    """An API server that has one pod; it counts who asks."""

    code = 200
    asked = 0
    pod: ClassVar[dict[str, Any]] = POD

    def do_GET(self) -> None:
        type(self).asked += 1
        body = self.pod if self.code == 200 else {"kind": "Status", "code": self.code, "message": "no", "reason": "No"}
        data = json.dumps(body).encode()
        self.send_response(self.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesApi]:
    Pods.code, Pods.asked, Pods.pod = 200, 0, POD
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pods)
    thread = Thread(target=server.serve_forever)
    thread.start()
    cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    with KubernetesApi.connect(kubeconfig=path) as made:
        yield made
    server.shutdown()
    thread.join()
    server.server_close()


def item(request: str = "gpu", claim: str = "one") -> ClaimAllocation:
    return ClaimAllocation(
        namespace="team",
        claim=claim,
        uid=f"uid of {claim}",
        request=request,
        pool="node-a",
        device="d",
        share_id="",
        core=None,
        memory_bytes=None,
        memory_ratio=None,
        isolation=None,
    )


ONE = Consumer(name="p", uid="pod-uid")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param(item(), ("init", "both"), id="its request, or all"),
        pytest.param(item("gpu/large"), ("init", "both"), id="an alternative of its request"),
        pytest.param(item("nic"), ("init",), id="another request"),
        pytest.param(item("any", "p-made-x7x7"), ("both",), id="made by a template"),
        pytest.param(item("any", "other"), (), id="another claim"),
    ],
)
def test_the_containers_of_a_request(api: KubernetesApi, given: ClaimAllocation, names: tuple[str, ...]) -> None:
    assert PodContainers(api).names("n", given, ONE, {}) == names


def test_a_pod_is_asked_for_once_as_long_as_it_is_of_interest(api: KubernetesApi) -> None:
    containers = PodContainers(api)
    for request in ("gpu", "nic", "gpu"):
        containers.names("n", item(request), ONE, {})
        containers.retain("n", {ONE.uid})
    assert Pods.asked == 1
    containers.retain("n", ())
    containers.names("n", item(), ONE, {})
    assert Pods.asked == 2


def test_containers_that_a_device_shows_are_not_read_again(api: KubernetesApi) -> None:
    told = {("pod-uid", "uid of one", "gpu"): ("train",)}
    assert PodContainers(api).names("n", item(), ONE, told) == ("train",)
    assert Pods.asked == 0


@pytest.mark.parametrize("code", [403, 404])
def test_a_pod_that_cannot_be_read_has_no_containers(api: KubernetesApi, code: int) -> None:
    Pods.code = code
    containers = PodContainers(api)
    assert [containers.names("n", item(), ONE, {}) for _ in range(2)] == [(), ()]
    assert Pods.asked == 1


def test_another_pod_of_that_name_is_not_meant(api: KubernetesApi) -> None:
    assert PodContainers(api).names("n", item(), Consumer(name="p", uid="former"), {}) == ()


def test_a_pod_that_names_nothing_is_asked_again_until_it_is_on_its_node(api: KubernetesApi) -> None:
    containers = PodContainers(api)
    extended = item("c-0", "extended")
    Pods.pod = POD | {"status": {}, "spec": {}}
    assert (containers.names("n", extended, ONE, {}), containers.are_final("n")) == ((), False)
    Pods.pod = POD
    assert (containers.names("n", extended, ONE, {}), containers.are_final("n")) == (("none",), True)


def test_one_that_never_names_anything_is_left_alone_in_the_end(api: KubernetesApi) -> None:
    containers = PodContainers(api)
    Pods.pod = POD | {"status": {}, "spec": {}}
    for _ in range(20):
        containers.names("n", item(), ONE, {})
        containers.retain("n", {ONE.uid})
    assert (containers.are_final("n"), Pods.asked) == (True, 10)
    Pods.asked = 0
    bound = PodContainers(api)
    Pods.pod = POD | {"status": {}, "spec": {"nodeName": "n"}}
    bound.names("n", item(), ONE, {})
    assert (bound.are_final("n"), Pods.asked) == (True, 1)
