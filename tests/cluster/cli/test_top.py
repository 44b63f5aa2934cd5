"""``rootport top``: through a real API server to real HTTP servers where the plugins' pods would be."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import PODS
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.paths import REPO
from tests.unit.driver.cli.plugin_page import plugin_page

GIB = 1024**3
NAMESPACE = "rootport-system"
Run = Callable[..., Any]


@contextmanager
def served(page: str) -> Iterator[int]:
    """A port of this computer where /metrics is ``page``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def own_address() -> str:
    """One that the API server may proxy to, which a loopback address is not (k8s.io/apiserver, pkg/util/proxy)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with three plugin pods on two nodes; that of node-2 does not answer."""
    address = own_address()
    with ControlPlane(tmp_path_factory.mktemp("top"), cluster_binaries) as plane:
        names = {"apiVersion": "v1", "metadata": {"name": "default", "namespace": NAMESPACE}}
        documents = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            names | {"kind": "ServiceAccount"},
            names | {"kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": NAMESPACE}},
        ]
        plane.kubectl("apply", "--server-side", "--filename=-", input=yaml.safe_dump_all(documents))
        with (
            served(plugin_page("node-1")) as port,
            served("# this is no page of metrics of a plugin\n") as other,
            KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api,
        ):
            _pod(api, "old", node="node-1", address=address, port=other, ready=False)
            _pod(api, "new", node="node-1", address=address, port=port, ready=True)
            _pod(api, "dead", node="node-2", address=address, port=1, ready=True)
            yield plane


def _pod(api: KubernetesApi, name: str, *, node: str, address: str, port: int, ready: bool) -> None:
    labels = {"app.kubernetes.io/name": "rootport", "app.kubernetes.io/component": "kubelet-plugin"}
    ports = [{"name": "health", "containerPort": port}]
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "kubelet-plugin", "image": "rootport", "ports": ports}]},
    }
    api.create(PODS, body)
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    api.merge_patch(PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status")


@pytest.mark.needs_go
def test_a_node_is_asked_through_the_api_server(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("top", "node-1", "--kubeconfig", plane.kubeconfig)
    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["GPU", "UTIL", "MEMORY", "GIVEN", "TEMP", "POWER", "HOLDERS"],
        ["gpu-0", "97%", "71.5/79.6Gi", "100%", "79.6Gi", "71C", "652W", "ml/train-0"],
        [
            "gpu-1",
            "5%",
            "9.7/79.6Gi",
            "50%",
            "40Gi",
            "40C",
            "90W",
            "ml/notebook-0",
            "30%,",
            "claim",
            "web/infer",
            "20%",
        ],
        ["gpu-10", "!", "-", "-", "-", "-", "-"],
    ]


@pytest.mark.needs_go
def test_a_node_that_does_not_answer_is_told_and_the_others_are_shown(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("top", "-o", "json", "--kubeconfig", plane.kubeconfig)
    assert ran.code == 1
    assert "node node-2 does not answer" in ran.err
    first, second = json.loads(ran.out)["nodes"]
    assert (first["name"], [device["name"] for device in first["devices"]]) == ("node-1", ["gpu-0", "gpu-1", "gpu-10"])
    assert first["devices"][0]["memoryUsed"] == 71.5 * GIB
    assert first["devices"][0]["holders"] == [
        {"namespace": "ml", "claim": "train", "pod": "train-0", "container": "main", "core": 1.0}
    ]
    assert (second["name"], second["devices"]) == ("node-2", [])
    assert second["error"]


@pytest.mark.needs_go
@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["node-9"], "no pod of Rootport's plugin is on node node-9"), (["a/b"], "no node has such a name")],
    ids=["unknown", "no name"],
)
def test_a_wrong_node_is_told(rootport: Run, plane: ControlPlane, arguments: list[str], says: str) -> None:
    ran = rootport("top", *arguments, "--kubeconfig", plane.kubeconfig)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.needs_go
def test_where_the_plugin_runs_without_a_pod_it_says_what_to_do_instead(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("top", "node-9", "--kubeconfig", plane.kubeconfig)
    assert "top asks each node's plugin by way of its pod" in ran.err
    assert "install the DaemonSet" in ran.err
    assert "read its page /metrics" in ran.err


@pytest.mark.needs_go
def test_who_may_not_ask_is_told_which_right_is_missing(rootport: Run, plane: ControlPlane) -> None:
    kubeconfig: Path = plane.service_account_kubeconfig(NAMESPACE, "nobody")
    ran = rootport("top", "--kubeconfig", kubeconfig)
    assert (ran.code, "list pods" in ran.err) == (2, True)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    names = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "lists", "namespace": NAMESPACE}}
    binding = names | {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lists"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": NAMESPACE}],
    }
    plane.kubectl(
        "apply", "--filename=-", input=yaml.safe_dump_all([names | {"kind": "Role", "rules": rules}, binding])
    )
    ran = rootport("top", "--kubeconfig", kubeconfig)
    assert (ran.code, ran.out) == (2, "")
    assert "pods/proxy" in ran.err
    # What docs/operator/status.md gives people is enough.
    guide = (REPO / "docs" / "operator" / "status.md").read_text()
    role = yaml.safe_load(guide.partition("```yaml\n")[2].partition("```")[0])
    assert role["metadata"]["namespace"] == NAMESPACE
    plane.kubectl("apply", "--filename=-", input=yaml.safe_dump(names | {"kind": "Role", "rules": role["rules"]}))
    ran = rootport("top", "node-1", "--kubeconfig", kubeconfig)
    assert (ran.code, "gpu-0" in ran.out) == (0, True), ran.err
