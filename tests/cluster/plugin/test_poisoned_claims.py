"""The whole plugin beside claims that are as far from the usual as the API server lets anybody write them."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc
from tests.cluster.plugin.test_process import allocated_claim, dra, give_driver, register, started
from tests.support.cluster.driver import NAMESPACE
from tests.support.plugin_process import Cluster, PluginNode, PluginProcess
from tests.support.poison.corpus import Poison, corpus
from tests.support.poison.sending import Sender

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

GPU, OTHER_GPU = "gpu-0000-13-00-0", "gpu-0000-23-00-0"
MOST_MIB = 150
_REQUESTS = {"32-requests": "r0/s0", "escaped-selectors": "r0"}


@pytest.fixture
def sender(cluster: Cluster) -> Sender:
    return Sender(cluster.plane.kubeconfig)


@pytest.fixture
def node(make_node: Callable[[str], PluginNode]) -> PluginNode:
    made = make_node(f"poisoned-{secrets.token_hex(3)}")
    give_driver(made.host)
    return made


@pytest.fixture
def poisons(sender: Sender, node: PluginNode) -> Iterator[list[Poison]]:
    """Claims that are made, and given a GPU of the node, as far as the API server takes that."""
    claims = [poison for poison in corpus("default", prefix=node.name) if poison.resource is RESOURCE_CLAIMS]
    mine = [_given(poison, node) for poison in claims]
    yield [poison for poison in mine if sender.create(poison) == ""]
    sender.delete(mine)


def _given(poison: Poison, node: PluginNode) -> Poison:
    return replace(
        poison,
        status=poison.status.replace(b'"pool": "nobody"', b'"pool": "%s"' % node.name.encode()).replace(
            b'"device": "gpu-0"', b'"device": "%s"' % GPU.encode()
        ),
    )


def _allocate(cluster: Cluster, poison: Poison, node: PluginNode, **share: object) -> dra_v1_pb2.Claim:
    if not poison.status:
        request = _REQUESTS.get(poison.what, "r")
        result = {"request": request, "driver": "rootport.dev", "pool": node.name, "device": GPU} | share
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}}
        patch = json.dumps({"status": {"allocation": allocation}})
        cluster.plane.kubectl(
            *("patch", "resourceclaim", poison.name, "--subresource=status", "--type=merge", f"--patch={patch}")
        )
    uid = cluster.plane.kubectl("get", "resourceclaim", poison.name, "--output=jsonpath={.metadata.uid}")
    return dra_v1_pb2.Claim(namespace="default", name=poison.name, uid=uid)


def _prepared(node: PluginNode, claim: dra_v1_pb2.Claim) -> str:
    """The claim's error; empty where it has its devices."""
    with dra(node) as channel:
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim])
        answer = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(request, timeout=60)
    found = answer.claims[claim.uid]
    assert bool(found.error) != bool(found.devices), "either devices, or why not"
    return str(found.error)


def _unprepared(node: PluginNode, claim: dra_v1_pb2.Claim) -> str:
    with dra(node) as channel:
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[claim])
        answer = dra_v1_pb2_grpc.DRAPluginStub(channel).NodeUnprepareResources(request, timeout=60)
    return str(answer.claims[claim.uid].error)


def test_poisoned_claims_are_answered_one_by_one_and_keep_nobody_else_from_the_node(
    cluster: Cluster, node: PluginNode, poisons: list[Poison]
) -> None:
    healthy = allocated_claim(cluster, node.name, OTHER_GPU)
    process = started(cluster, node)
    assert _prepared(node, healthy) == ""
    before_mib = process.rss_mib()
    errors: dict[str, str] = {}
    for poison in poisons:
        claim = _allocate(cluster, poison, node)
        errors[poison.what] = _prepared(node, claim)
        assert _unprepared(node, claim) == "", poison
        _is_well(process)
    assert not [error for error in errors.values() if "failed unexpectedly" in error], errors
    # Metadata is the API server's business: however it looks, the claim gets what it was allocated.
    for what in ("deep-managed-fields", "wide-managed-fields", "many-owners", "large-annotations", "strange-metadata"):
        assert errors[what] == "", what
    assert any(errors[what] for what in errors if what.startswith("given-")), "bad parameters are refused"
    assert process.rss_mib() - before_mib < MOST_MIB
    assert _unprepared(node, healthy) == ""
    assert _prepared(node, healthy) == ""
    assert process.terminate() == 0


def test_a_plugin_that_holds_poisoned_claims_starts_looks_after_them_and_ends_them(
    cluster: Cluster, node: PluginNode, poisons: list[Poison]
) -> None:
    healthy = allocated_claim(cluster, node.name, OTHER_GPU)
    process = started(cluster, node)
    (deep,) = (poison for poison in poisons if poison.what == "deep-managed-fields")
    # A share, whose claim's status the plugin writes.
    half = {"core": "50", "memory": "40Gi"}
    claim = _allocate(cluster, deep, node, shareID=str(uuid.uuid4()), consumedCapacity=half)
    assert _prepared(node, claim) == ""
    process.wait_log("claim status written")
    assert process.terminate() == 0
    kubeconfig = cluster.plane.service_account_kubeconfig(NAMESPACE, "rootport-kubelet-plugin", node=node.name)
    for _ in range(2):
        process = node.start(kubeconfig, "--log-level=debug")
        register(process)
        assert _prepared(node, claim) == "", "as before"
        assert _prepared(node, healthy) == ""
        assert _unprepared(node, healthy) == ""
        _is_well(process)
        assert process.terminate() == 0
    process = node.start(kubeconfig)
    register(process)
    assert _unprepared(node, claim) == ""
    assert process.terminate() == 0


def _is_well(process: PluginProcess) -> None:
    assert process.popen.poll() is None, process.text()[-2000:]
    assert "an error that was not expected" not in process.text()
