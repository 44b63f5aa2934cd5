"""What a claim's status says of its prepared devices, which is published with a node's token, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import JsonObject
from driver.errors import NodeError
from driver.plan import PreparedDevice
from driver.plan.effects import Effect, LendInterface
from kubeletplugin.claims.status import ClaimStatusPublisher
from kubeletplugin.internal_errors import InternalError
from kubeletplugin.network.netdev.records import InPod
from kubeletplugin.state.entry import Entry
from tests.support.plugin_process import Cluster
from tests.unit.kubeletplugin.claims.test_claim_status import (
    NODE,
    NOW,
    THEIRS,
    TURNS,
    UP,
    VF,
    VF_USE,
    allocated,
    entries_of,
    nic,
    prepared,
)

pytestmark = pytest.mark.since_kubernetes(36, "the claims have shares, whose ids the API server drops before")


class Claims:
    """Claims on a real API server, as scheduler and kubelet leave them, and the plugin's entries of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.plane = cluster.plane
        self.entries: dict[str, Entry] = {}
        self._names: list[str] = []

    def add(self, name: str, *devices: PreparedDevice, node: str = NODE, others: bool = False) -> JsonObject:
        """An allocated claim that is prepared here."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        }
        made: JsonObject = json.loads(
            self.plane.kubectl("create", "--filename=-", "--output=json", input=json.dumps(body))
        )
        self._names.append(name)
        self.allocate(name, *devices, node=node, others=others)
        self.prepare(made, *devices)
        return made

    def allocate(self, name: str, *devices: PreparedDevice, node: str = NODE, others: bool = False) -> None:
        status = allocated(*devices)["status"]
        entries = []
        if others:
            status["allocation"]["devices"]["results"].append(THEIRS | {"request": "gpu"})
            entries.append(THEIRS | {"conditions": [UP]})
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        self.patch(name, {"status": status | {"devices": entries}})

    def patch(self, name: str, patch: Mapping[str, Any]) -> None:
        command = ("patch", "resourceclaim", name, "--subresource=status", "--type=merge")
        self.plane.kubectl(*command, f"--patch={json.dumps(patch)}")

    def prepare(self, made: JsonObject, *devices: PreparedDevice, effects: tuple[Effect, ...] = ()) -> None:
        metadata = made["metadata"]
        self.entries[metadata["uid"]] = Entry(
            uid=metadata["uid"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            state="prepared",
            boot_id="b",
            devices=devices,
            effects=effects,
            cdi_spec="{}",
            files=(),
        )

    def current(self) -> list[Entry]:
        return list(self.entries.values())

    def delete(self, name: str) -> None:
        self.plane.kubectl("delete", "resourceclaim", name, "--ignore-not-found")

    def get(self, name: str) -> JsonObject:
        found: JsonObject = json.loads(self.plane.kubectl("get", "resourceclaim", name, "--output=json"))
        return found

    def own_entries(self, name: str) -> list[JsonObject]:
        entries: list[JsonObject] = self.get(name)["status"].get("devices", [])
        return [entry for entry in entries if entry["driver"] == "rootport.dev"]

    def version(self, name: str) -> str:
        version: str = self.get(name)["metadata"]["resourceVersion"]
        return version

    def clear(self) -> None:
        for name in self._names:
            self.delete(name)


class Counted(KubernetesApi):
    """The real client, which remembers what it was asked."""

    calls: list[str]

    @classmethod
    def of(cls, api: KubernetesApi) -> Counted:
        made = cls(api._connection)
        made.calls = []
        return made

    def get(self, *args: Any, **options: Any) -> JsonObject:
        self.calls.append("get")
        return super().get(*args, **options)

    def apply(self, *args: Any, **options: Any) -> JsonObject:
        self.calls.append("apply")
        return super().apply(*args, **options)


@pytest.fixture(scope="module")
def node_api(installed: Any) -> Iterator[KubernetesApi]:
    """The API server with the token of the node's plugin."""
    kubeconfig = Cluster(installed).add_node(NODE)
    with KubernetesApi.connect(kubeconfig=kubeconfig) as api:
        yield api


@pytest.fixture
def api(node_api: KubernetesApi) -> Counted:
    return Counted.of(node_api)


@pytest.fixture
def claims(cluster: Cluster) -> Iterator[Claims]:
    made = Claims(cluster)
    yield made
    made.clear()


@pytest.fixture
def publisher(api: Counted, claims: Claims) -> ClaimStatusPublisher:
    return ClaimStatusPublisher(api, entries=claims.current, wall=lambda: NOW)


@pytest.mark.needs_go
def test_a_prepared_claims_status_is_published_once(
    claims: Claims, publisher: ClaimStatusPublisher, api: Counted
) -> None:
    claims.add("status-one", prepared(), others=True)
    publisher.publish()
    stored = claims.get("status-one")["status"]["devices"]
    assert [entry for entry in stored if entry["driver"] == "rootport.dev"] == entries_of(prepared())
    assert THEIRS | {"conditions": [UP]} in stored
    publisher.publish()
    assert api.calls == ["get", "apply"]


@pytest.mark.needs_go
def test_a_restart_reads_and_writes_nothing(claims: Claims, publisher: ClaimStatusPublisher, api: Counted) -> None:
    claims.add("status-restart", prepared())
    publisher.publish()
    version = claims.version("status-restart")
    api.calls.clear()
    later = NOW + timedelta(days=1)
    ClaimStatusPublisher(api, entries=claims.current, wall=lambda: later).publish()
    assert api.calls == ["get"]
    assert claims.version("status-restart") == version


@pytest.mark.needs_go
def test_a_claim_that_is_allocated_and_prepared_anew_is_published_anew(
    claims: Claims, publisher: ClaimStatusPublisher
) -> None:
    made = claims.add("status-again", prepared())
    publisher.publish()
    claims.patch("status-again", {"status": {"allocation": None}})
    assert "devices" not in claims.get("status-again").get("status", {})
    claims.allocate("status-again", prepared())
    claims.prepare(made, prepared())
    publisher.publish()
    assert claims.own_entries("status-again") == entries_of(prepared())


@pytest.mark.needs_go
def test_what_changed_is_published_with_its_time(claims: Claims, api: Counted, publisher: ClaimStatusPublisher) -> None:
    made = claims.add("status-change", prepared())
    publisher.publish()
    claims.prepare(made, prepared(isolation=TURNS))
    later = NOW + timedelta(hours=1)
    ClaimStatusPublisher(api, entries=claims.current, wall=lambda: later).publish()
    (entry,) = claims.own_entries("status-change")
    (condition,) = entry["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", "2026-03-04T06:06:07Z")


@pytest.mark.needs_go
def test_a_claim_that_is_gone_or_another_one_is_dropped(
    claims: Claims, publisher: ClaimStatusPublisher, api: Counted
) -> None:
    claims.add("status-gone", prepared())
    claims.add("status-other", prepared())
    for name in ("status-gone", "status-other"):
        claims.delete(name)
    entries = dict(claims.entries)
    claims.add("status-other", prepared())
    claims.entries = entries
    publisher.publish()
    assert claims.own_entries("status-other") == []
    publisher.publish()
    assert api.calls == ["get", "get"]


@pytest.mark.needs_go
def test_a_claim_without_limits_and_one_that_is_not_planned_yet_cost_no_call(
    claims: Claims, publisher: ClaimStatusPublisher, api: Counted
) -> None:
    claims.add("status-nic", prepared("rdma-0000-14-00-0", isolation=None, share=None))
    made = claims.add("status-rebuilt", prepared())
    uid = made["metadata"]["uid"]
    claims.entries[uid] = replace(claims.entries[uid], state="rebuilt")
    publisher.publish()
    assert api.calls == []
    claims.prepare(made, prepared())
    publisher.publish()
    assert claims.own_entries("status-rebuilt") == entries_of(prepared())


@pytest.mark.needs_go
def test_one_claim_that_is_refused_keeps_no_other_back(claims: Claims, publisher: ClaimStatusPublisher) -> None:
    claims.add("status-bad", prepared(), node="another-node")
    claims.add("status-good", prepared())
    with pytest.raises(NodeError, match=r"status of 1 claims could not be written, .*default/status-bad"):
        publisher.publish()
    assert claims.own_entries("status-good") == entries_of(prepared())
    claims.patch("status-bad", {"status": {"allocation": None}})
    claims.allocate("status-bad", prepared())
    publisher.publish()
    assert claims.own_entries("status-bad") == entries_of(prepared())


@pytest.mark.needs_go
def test_one_claim_on_which_the_plugin_stumbles_keeps_no_other_back(claims: Claims, api: Counted) -> None:
    lent = LendInterface(
        function=VF,
        address="0000:41:00.2",
        interface="ens1v0",
        pod_uid="pod",
        claim_uid="claim",
        name_in_pod="net1",
        mtu=None,
        rdma_device=None,
    )
    made = claims.add("status-a-stumble", nic(VF_USE))
    claims.prepare(made, nic(VF_USE), effects=(lent,))
    claims.add("status-b-other", prepared())
    networks: list[Mapping[str, InPod]] = []

    def network(_: str) -> Mapping[str, InPod]:
        return networks[0]  # IndexError: a mistake

    publisher = ClaimStatusPublisher(api, entries=claims.current, network=network, wall=lambda: NOW)
    with pytest.raises(InternalError, match=f"1 claims .*{made['metadata']['uid']}.*IndexError"):
        publisher.publish()
    assert claims.own_entries("status-b-other") == entries_of(prepared())
    networks.append({})
    publisher.publish()
    assert claims.own_entries("status-a-stumble") != []


@pytest.mark.needs_go
def test_an_interface_is_published_once_it_is_in_the_pod_and_when_it_has_left(claims: Claims, api: Counted) -> None:
    lent = LendInterface(
        function=VF,
        address="0000:41:00.2",
        interface="ens1v0",
        pod_uid="pod",
        claim_uid="claim",
        name_in_pod="net1",
        mtu=None,
        rdma_device=None,
    )
    made = claims.add("status-lent", nic(VF_USE))
    claims.prepare(made, nic(VF_USE), effects=(lent,))
    network: dict[str, InPod] = {}
    publisher = ClaimStatusPublisher(
        api, entries=claims.current, network=lambda uid: network if uid == made["metadata"]["uid"] else {}
    )
    publisher.publish()
    assert "networkData" not in claims.own_entries("status-lent")[0]
    network[VF] = InPod(name="net1", mac="02:00:00:00:00:01", addresses=("10.0.0.7/24", "fd00::7/64"))
    api.calls.clear()
    for _ in range(2):
        publisher.publish()
    assert api.calls == ["get", "apply"]
    (entry,) = claims.own_entries("status-lent")
    assert entry["networkData"] == {
        "interfaceName": "net1",
        "hardwareAddress": "02:00:00:00:00:01",
        "ips": ["10.0.0.7/24", "fd00::7/64"],
    }
    assert entry["data"]["vf"] == VF
    network.clear()
    publisher.publish()
    assert "networkData" not in claims.own_entries("status-lent")[0]
