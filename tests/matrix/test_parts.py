"""Rootport's own parts on the cluster: its manifests, webhooks and placement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.model.managed_nodes import ANNOTATION, ENABLED, LABEL, MANAGED, TAINT
from tests.cluster.conversion.converting_cluster import ConvertingCluster
from tests.matrix.rig import CONTROLLER, CONTROLLER_OPTIONS, LOOK, Rig, Row
from tests.support.cluster.driver import MANIFESTS, NAMESPACE, install, kustomized
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import gpu_claim, manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import HTTPS_PORT

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]


def documents(text: str) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all(text) if item]


def lost(wanted: Any, stored: Any, path: str = "") -> Iterator[str]:
    """What was written and is not stored; what the API server adds is its own affair."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        for key, value in wanted.items():
            if value or key in stored:  # empty values may be left out
                yield from lost(value, stored.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        for at, pair in enumerate(zip(wanted, stored, strict=True)):
            yield from lost(*pair, f"{path}[{at}]")
    elif wanted != stored and str(wanted) != str(stored) and not _are_one_number(wanted, stored):
        yield f"{path}: {wanted!r} has become {stored!r}"


def _are_one_number(wanted: Any, stored: Any) -> bool:
    """Bounds in schemas are stored as floating-point numbers."""
    return all(type(value) in (int, float) for value in (wanted, stored)) and float(wanted) == float(stored)


def test_manifests(rig: Rig, row: Row) -> None:
    """All of `kubectl apply -k resourceclasses/` is accepted and kept, without a warning"""
    plane = rig.cluster.control_plane
    wanted = documents(kustomized(plane))
    said = plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--filename=-", input=yaml.safe_dump_all(wanted), check=False
    )
    assert "arning" not in said
    assert "rror" not in said
    text = plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--output=json", "--filename=-", input=yaml.safe_dump_all(wanted)
    )
    stored = {(item["kind"], item["metadata"]["name"]): item for item in json.loads(text)["items"]}
    # Of metadata the names are ours alone.
    specs = [({key: item[key] for key in item.keys() - {"metadata"}}, stored[_key(item)]) for item in wanted]
    assert [text for pair in specs for text in lost(*pair, str(pair[0]["kind"]))] == []
    row.works()


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def test_own_status_alone(rig: Rig, row: Row) -> None:
    """A node's plugin may write its own entries in a claim's status, and nothing else there"""
    rig.start(gpu_claim("held", rig.host.gpus[1]), pod("held", claim="held"))
    assert rig.runs("held")
    plane = rig.cluster.control_plane
    plugin = plane.service_account_kubeconfig(NAMESPACE, "rootport-kubelet-plugin", node=NODE_NAME)
    for field in ("allocation", "reservedFor"):
        patch = ("patch", "resourceclaim", "held", "--subresource=status", "--type=merge", "--patch")
        said = plane.kubectl(*patch, json.dumps({"status": {field: None}}), kubeconfig=plugin, check=False)
        assert "orbidden" in said, said
    assert rig.claim("held")["status"]["reservedFor"]
    row.works()


@pytest.fixture
def converting(rig: Rig) -> Iterator[ConvertingCluster]:
    """A namespace whose pods and claims are converted."""
    files = []
    for name in ("webhook", "convert-webhook"):
        component = MANIFESTS / "components" / name
        listed = yaml.safe_load((component / "kustomization.yaml").read_text())["resources"]
        files += [component / file for file in listed]
    client = {"service": None, "url": f"https://127.0.0.1:{HTTPS_PORT}/admission"}
    hooks = [{"name": f"{kind}.rootport.dev", "clientConfig": client} for kind in ("claims", "classes")]
    converting = ConvertingCluster(rig.cluster.control_plane, "as-they-are")
    try:
        rig.rootport.apply(*files)
        patch = ("patch", "validatingwebhookconfiguration", "rootport", "--patch", json.dumps({"webhooks": hooks}))
        rig.kubectl(*patch)
        restart(rig, "--webhook", "--webhook-host=127.0.0.1", "--convert")
        converting.make_namespace(converting.namespace, opted_in=True)
        converting.send_to(HTTPS_PORT)
        yield converting
    finally:
        rig.kubectl("delete", "namespace", converting.namespace, "--ignore-not-found", "--timeout=90s")
        rig.rootport.delete(*files)
        restart(rig)


def restart(rig: Rig, *options: str) -> None:
    assert rig.rootport.controller is not None
    rig.rootport.controller.stop()
    rig.rootport.start_controller(*CONTROLLER_OPTIONS, *options, module=CONTROLLER)
    rig.rootport.wait_until_controller_is_ready()


def test_webhooks(rig: Rig, row: Row, converting: ConvertingCluster) -> None:
    """Pods for device plugins are converted when they are created, and claims checked (webhooks)"""
    made = pod("unchanged", claim="none", command=LOOK)
    del made["spec"]["resourceClaims"]
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    rig.kubectl("apply", f"--namespace={converting.namespace}", "--filename=-", input=manifest(made))
    rig.cluster.wait_for_pod("unchanged", "Running", namespace=converting.namespace)
    assert len(rig.cluster.list(RESOURCE_CLAIMS, namespace=converting.namespace)) == 1
    row.works()


def is_tainted(rig: Rig) -> bool:
    devices = [device for item in rig.rootport.slices() for device in item["spec"].get("devices", ())]
    return bool(devices) and all(any(t["key"] == TAINT for t in device.get("taints", ())) for device in devices)


def test_placement(rig: Rig, row: Row) -> None:
    """Rootport places pods on managed nodes (component `placement`)"""
    plane, kubectl = rig.cluster.control_plane, rig.kubectl
    names = {_key(item) for item in documents(kustomized(plane))}
    own = [item for item in documents(kustomized(plane, "placement")) if _key(item) not in names]
    try:
        try:
            install(plane, "placement")
        except RuntimeError as error:
            row.absent(_errors(str(error)), by="kubectl apply", gate="MutatingAdmissionPolicy")
            return
        kubectl("label", "namespace", "default", f"{LABEL}={ENABLED}")
        kubectl("label", "node", NODE_NAME, f"{LABEL}={MANAGED}")
        restart(rig, "--placement=pack")
        try:
            wait_until("the devices are tainted", lambda: is_tainted(rig), timeout_s=30)
        except TimeoutError:
            row.degraded("DRADeviceTaints")
            return
        rig.start(template("all", gpu=8), pod("placed", template="all"))
        assert rig.runs("placed")
        (claim,) = rig.cluster.list(RESOURCE_CLAIMS)
        assert json.loads(claim["metadata"]["annotations"][ANNOTATION])["node"] == NODE_NAME
        row.works()
    finally:
        rig.rootport.delete_all()
        kubectl("label", "node", NODE_NAME, f"{LABEL}-")
        kubectl("label", "namespace", "default", f"{LABEL}-")
        restart(rig)
        for item in own:
            kubectl("delete", item["kind"], item["metadata"]["name"], "--ignore-not-found", check=False)
        install(plane)
        wait_until("the taint is gone", lambda: not is_tainted(rig), timeout_s=60)


def _errors(text: str) -> str:
    """What kubectl says is wrong, once."""
    lines = (
        line.partition("resource mapping not found for ")[2] or line
        for line in text.splitlines()
        if "no matches" in line
    )
    return next(iter(lines), text)
