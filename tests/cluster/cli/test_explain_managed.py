"""``rootport explain`` of a pod that waits for placement, on a real API server with the leader's own Lease."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.leader.election import LeaderElector
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import LEASES, NODES, JsonObject
from driver.adapters.kubernetes.snapshot import CLUSTER_ROLE
from driver.model.managed_nodes import GATE, LEADER_ANNOTATION, TAINT
from resourceclasses import device_classes_text
from tests.support.cluster.control_plane import ControlPlane
from tests.support.paths import REPO
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

SPACE, SYSTEM, LEASE = "explain-managed", "rootport-system", "rootport-controller"
_CONTROLLER = (
    # Where other tests have installed Rootport, its slices are written by the controller alone.
    "--as=system:serviceaccount:rootport-system:rootport-controller",
    "--as-group=system:masters",
)
Run = Callable[..., Any]


def _object(kind: str, name: str, namespace: str = "", version: str = "v1", **fields: Any) -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _slice() -> JsonObject:
    attributes = {"type": {"string": "gpu"}, "sharingStrategy": {"string": "timeSlicing"}}
    device = {"name": "gpu-0", "attributes": attributes, "taints": [{"key": TAINT, "effect": "NoSchedule"}]}
    pool = {"name": "managed-1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "rootport.dev", "nodeName": "managed-1", "pool": pool, "devices": [device]}
    return _object("ResourceSlice", "managed-1", version="resource.k8s.io/v1", spec=spec)


def _pod() -> JsonObject:
    return _object(
        "Pod", "train-0", SPACE,
        spec={
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A managed node with a free GPU, and a gated pod; and two users, one of whom may read the Lease."""
    rbac = "rbac.authorization.k8s.io/v1"
    account = [{"kind": "ServiceAccount", "name": "reader", "namespace": SPACE}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    objects = [
        _object("Namespace", SPACE),
        _object("ServiceAccount", "default", SPACE),
        _object("ServiceAccount", "reader", SPACE),
        _object("ClusterRoleBinding", SPACE, version=rbac, roleRef=role | {"name": CLUSTER_ROLE}, subjects=account),
        _object(
            "RoleBinding", "viewer", SPACE, version=rbac, subjects=account,
            roleRef=role | {"name": "system:aggregate-to-view"},
        ),
        _object("Node", "managed-1"),
        _object(
            "ResourceClaim", "train", SPACE, version="resource.k8s.io/v1", spec={"devices": {"requests": [request]}}
        ),
    ]  # fmt: skip
    control_plane.kubectl("apply", "--server-side", f"--filename={REPO / 'resourceclasses/rbac/explain.yaml'}")
    control_plane.kubectl("apply", "--server-side", "--filename=-", input=device_classes_text())
    control_plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(_object("Namespace", SYSTEM)))
    control_plane.kubectl("apply", "--server-side", "--filename=-", input=yaml.safe_dump_all(objects))
    control_plane.kubectl("create", "--filename=-", *_CONTROLLER, input=json.dumps(_slice()))
    control_plane.kubectl("create", "--filename=-", input=json.dumps(_pod()))
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig) as api:
        # Admission taints a node that is not ready yet.
        api.merge_patch(NODES, "managed-1", {"spec": {"taints": None}})
    yield control_plane
    for kind, name in (("resourceslice", "managed-1"), ("node", "managed-1"), ("namespace", SPACE)):
        control_plane.kubectl("delete", kind, name, "--wait=false", "--ignore-not-found", *_CONTROLLER)


@pytest.fixture
def reader(plane: ControlPlane) -> Path:
    return plane.service_account_kubeconfig(SPACE, "reader")


@pytest.fixture
def lead(plane: ControlPlane) -> Iterator[Callable[[str], LeaderElector]]:
    """Lets a controller lead that places by a policy, or by none."""
    stop, threads, electors = threading.Event(), list[threading.Thread](), list[LeaderElector]()
    api = KubernetesApi.connect(kubeconfig=plane.kubeconfig)

    def run(policy: str) -> LeaderElector:
        annotations = {LEADER_ANNOTATION: f"{policy} me_1"} if policy else {}
        elector = LeaderElector(api, namespace=SYSTEM, name=LEASE, identity="me_1", annotations=annotations)
        thread = threading.Thread(target=elector.run, args=(stop,), kwargs={"on_elected": lambda: None})
        thread.start()
        threads.append(thread)
        electors.append(elector)
        eventually("it leads", lambda: elector.leads)
        return elector

    yield run
    stop.set()
    for thread in threads:
        thread.join()
    for elector in electors:
        elector.release()
    plane.kubectl("delete", "lease", LEASE, f"--namespace={SYSTEM}", "--ignore-not-found")


def _explained(rootport: Run, kubeconfig: Path) -> tuple[int, JsonObject]:
    ran = rootport("explain", "pod", f"{SPACE}/train-0", "--kubeconfig", kubeconfig, "-o", "json")
    return ran.code, json.loads(ran.out)


def test_without_a_lease_nobody_places(rootport: Run, reader: Path) -> None:
    code, answer = _explained(rootport, reader)
    assert (code, answer["reason"], answer["nodes"]["fitting"]) == (1, "PlacementNotRunning", 1)
    assert "its Lease is missing" in answer["findings"][0]["message"]
    assert answer["proposals"][0]["kind"] == "RepairDriver"


def test_with_a_leader_that_places_it_waits_for_a_moment(
    rootport: Run, reader: Path, lead: Callable[[str], LeaderElector]
) -> None:
    lead("pack")
    code, answer = _explained(rootport, reader)
    assert (code, answer["reason"], answer["fits"]) == (0, "WaitingForPlacement", True)
    assert "managed node managed-1" in answer["findings"][0]["message"]
    assert "the pod was created" in answer["findings"][0]["message"]


def test_with_a_leader_that_places_nothing_it_waits_for_another(
    rootport: Run, reader: Path, lead: Callable[[str], LeaderElector]
) -> None:
    lead("")
    code, answer = _explained(rootport, reader)
    assert (code, answer["reason"]) == (1, "PlacementNotRunning")
    assert "me_1, places nothing" in answer["findings"][0]["message"]


def test_what_a_former_leader_wrote_on_the_lease_says_nothing_about_an_older_one_that_took_it(
    rootport: Run, reader: Path, plane: ControlPlane, lead: Callable[[str], LeaderElector]
) -> None:
    lead("pack")
    with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
        stored = api.get(LEASES, LEASE, namespace=SYSTEM)
        assert stored["metadata"]["annotations"][LEADER_ANNOTATION] == "pack me_1"
        api.merge_patch(LEASES, LEASE, {"spec": {"holderIdentity": "older_2"}}, namespace=SYSTEM)
    code, answer = _explained(rootport, reader)
    assert (code, answer["reason"]) == (1, "PlacementNotRunning")
    assert "older_2, places nothing" in answer["findings"][0]["message"]


def test_who_may_not_read_the_lease_is_told_that_it_is_not_known(
    rootport: Run, reader: Path, plane: ControlPlane
) -> None:
    role = plane.kubectl("get", "clusterrole", CLUSTER_ROLE, "--output=json")
    without = json.loads(role if isinstance(role, str) else role.stdout)
    without["rules"] = [rule for rule in without["rules"] if rule["resources"] != ["leases"]]
    del without["metadata"]["resourceVersion"]
    plane.kubectl("replace", "--filename=-", input=json.dumps(without))
    try:

        def is_told() -> bool:
            code, answer = _explained(rootport, reader)
            assert (code, answer["reason"]) in {(0, "WaitingForPlacement"), (1, "PlacementNotRunning")}
            return any("may not be read: whether a controller places is not known" in note for note in answer["notes"])

        eventually("the API server takes the right away", is_told)
    finally:
        plane.kubectl(
            "apply", "--server-side", "--force-conflicts", f"--filename={REPO / 'resourceclasses/rbac/explain.yaml'}"
        )
