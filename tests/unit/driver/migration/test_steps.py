"""How far a node is on its way from device plugins to Rootport, and back: from the API's objects to steps."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from driver.migration.facts import ClusterObjects, node_facts
from driver.migration.steps import Migration, StepState, migration
from driver.migration.wire import migration_to_wire

Json = dict[str, Any]

READY = [{"type": "Ready", "status": "True"}]


def node(*, cordoned: bool = False, capacity: str = "0", allocatable: str | None = None, **labels: str) -> Json:
    status = {
        "capacity": {"nvidia.com/gpu": capacity, "cpu": "8"},
        "allocatable": {"nvidia.com/gpu": allocatable or capacity},
    }
    metadata = {"name": "n", "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    return {"metadata": metadata, "spec": {"unschedulable": cordoned}, "status": status}


def pod(
    name: str, *, owner: str = "", limits: Json | None = None, phase: str = "Running", namespace: str = "ml"
) -> Json:
    owners = [{"kind": "DaemonSet", "name": owner, "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
        "spec": {"containers": [{"resources": {"limits": limits or {}}}]},
        "status": {"phase": phase, "conditions": READY},
    }


def daemon_set(name: str, *, selector: Json | None = None, affinity: Json | None = None, ours: bool = False) -> Json:
    volumes = [{"name": "v", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    spec = {"nodeSelector": selector or {}, "affinity": affinity or {}, "volumes": volumes}
    labels = {"app.kubernetes.io/component": "kubelet-plugin"} if ours else {}
    namespace = "rootport-system" if ours else "kube-system"
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": spec}},
    }


def slices(count: int = 2, *, driver: str = "rootport.dev", tainted: bool = False) -> Json:
    taints = [{"key": "rootport.dev/rival-plugin", "effect": "NoSchedule"}] if tainted else []
    devices = [{"name": f"d{number}", "taints": taints} for number in range(count)]
    return {"spec": {"driver": driver, "nodeName": "n", "devices": devices}}


def claim(name: str, *, driver: str = "rootport.dev", pods: tuple[str, ...] = ("p",)) -> Json:
    results = [{"driver": driver, "pool": "n", "device": "d0"}]
    reserved = [{"resource": "pods", "name": pod} for pod in pods]
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def inventory(*conditions: Json, rivals: list[Json] | None = None) -> Json:
    good = [{"type": kind, "status": "True", "reason": "Good", "message": ""} for kind in ("Ready", "Published")]
    return {"status": {"conditions": [*good, *conditions], "rivals": rivals or []}}


OURS = daemon_set("rootport-kubelet-plugin", ours=True)
OUR_POD = pod("plugin", owner="rootport-kubelet-plugin", namespace="rootport-system")
NVIDIA = daemon_set("nvidia-device-plugin", selector={"nvidia.com/gpu.deploy.device-plugin": "true"})
NVIDIA_POD = pod("nvidia-1", owner="nvidia-device-plugin", namespace="kube-system")


def of(node_: Json, *, is_back: bool = False, **objects: Any) -> Migration:
    given: Json = {"pods": [], "claims": [], "slices": [], "daemon_sets": [OURS, NVIDIA], "inventory": {}} | objects
    return migration(node_facts(ClusterObjects(node=node_, **given)), is_back=is_back)


def states(found: Migration) -> dict[str, str]:
    return {step.name: step.state.value for step in found.steps}


def test_a_node_of_a_device_plugin_is_cordoned_first() -> None:
    found = of(node(capacity="8"), pods=[NVIDIA_POD, pod("train", limits={"nvidia.com/gpu": "1"})])
    assert states(found) == {
        "cordon": "to do",
        "drain": "to do",
        "plugin-off": "to do",
        "rootport-on": "to do",
        "published": "waiting",
        "uncordon": "to do",
    }
    assert found.next is not None
    assert found.next.command == "kubectl cordon n"


def test_then_what_holds_devices_is_drained_and_named() -> None:
    pods = [
        NVIDIA_POD,
        pod("train", limits={"nvidia.com/gpu": "2"}),
        pod("done", limits={"nvidia.com/gpu": "1"}, phase="Succeeded"),
    ]
    found = of(node(capacity="8", cordoned=True), pods=pods, claims=[claim("c", driver="gpu.nvidia.com")])
    assert found.next is not None
    assert found.next.command == "kubectl drain n --ignore-daemonsets --delete-emptydir-data"
    assert "pod ml/train (nvidia.com/gpu: 2) and pod ml/p (1 of gpu.nvidia.com by claim ml/c)" in found.next.text
    assert "ml/done" not in found.next.text


def test_a_pod_that_has_an_extended_resource_by_a_claim_holds_it_by_nobody_else() -> None:
    made = pod("train", limits={"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"})
    mapping = {"containerName": "main", "requestName": "r", "resourceName": "nvidia.com/gpu"}
    made["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c", "requestMappings": [mapping]}
    found = of(node(cordoned=True), pods=[made]).next
    assert found is not None
    assert (found.name, "pod ml/train (nvidia.com/mig-1g.10gb: 1)" in found.text) == ("drain", True)
    del made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"]
    assert states(of(node(cordoned=True), pods=[made]))["drain"] == "done"


@pytest.mark.parametrize(
    ("labels", "daemon", "command"),
    [
        pytest.param(
            {}, NVIDIA, "kubectl label node n nvidia.com/gpu.deploy.device-plugin=false --overwrite", id="GPU Operator"
        ),
        pytest.param(
            {"gpu": "on", "kubernetes.io__os": "linux"},
            daemon_set("nvidia-device-plugin", selector={"gpu": "on", "kubernetes.io/os": "linux"}),
            "kubectl label node n gpu-",
            id="HAMi",
        ),
        pytest.param(
            {},
            daemon_set(
                "nvidia-device-plugin",
                affinity={
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
                },
            ),
            "kubectl label node n rootport.dev/moved=true",
            id="an affinity of its own",
        ),
    ],
)
def test_the_plugin_is_taken_off_that_node_alone(labels: dict[str, str], daemon: Json, command: str) -> None:
    found = of(node(capacity="8", cordoned=True, **labels), pods=[NVIDIA_POD], daemon_sets=[OURS, daemon])
    assert found.next is not None
    assert (found.next.name, found.next.command) == ("plugin-off", command)
    assert "kube-system/nvidia-device-plugin" in found.next.text


def test_a_daemon_set_without_any_selector_learns_to_leave_out_moved_nodes() -> None:
    plain = daemon_set("nvidia-device-plugin", selector={"kubernetes.io/os": "linux"})
    found = of(node(capacity="8", cordoned=True), pods=[NVIDIA_POD], daemon_sets=[OURS, plain])
    assert found.next is not None
    words = shlex.split(found.next.command)
    assert words[:6] == ["kubectl", "label", "node", "n", "rootport.dev/moved=true", "&&"]
    patch_text = words[-1].removeprefix("--patch=")
    terms = json.loads(patch_text)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "rootport.dev/moved", "operator": "DoesNotExist"}]}


FUSE = daemon_set("a-fuse-device-plugin", selector={"fuse": "yes"})
FUSE_POD = pod("fuse-1", owner="a-fuse-device-plugin", namespace="kube-system")


def test_the_plugin_of_other_devices_is_left_alone() -> None:
    plugins: Json = {"daemon_sets": [OURS, FUSE, NVIDIA], "pods": [FUSE_POD, NVIDIA_POD]}
    off = of(node(capacity="8", cordoned=True, fuse="yes"), **plugins).next
    assert off is not None
    assert off.command == "kubectl label node n nvidia.com/gpu.deploy.device-plugin=false --overwrite"
    assert "fuse" not in off.text
    waits = of(node(capacity="8", allocatable="0", cordoned=True), **plugins | {"pods": [FUSE_POD]}).next
    assert waits is not None
    assert (waits.name, waits.state) == ("plugin-off", StepState.WAITING)
    labels = {"nvidia.com__gpu.deploy.device-plugin": "false", "rootport.dev__maintenance": ""}
    on = of(node(cordoned=True, **labels), is_back=True, **plugins | {"pods": [FUSE_POD]}).next
    assert on is not None
    assert on.command == "kubectl label node n nvidia.com/gpu.deploy.device-plugin=true --overwrite"


def test_where_no_name_says_whose_it_is_no_command_is_made_up() -> None:
    odd = [daemon_set("one", selector={"a": "b"}), daemon_set("two", selector={"a": "b"})]
    pods = [pod(f"{name}-1", owner=name, namespace="kube-system") for name in ("one", "two")]
    off = of(node(capacity="8", cordoned=True, a="b"), daemon_sets=[OURS, *odd], pods=pods).next
    assert off is not None
    assert (off.name, off.command) == ("plugin-off", "")
    assert "kube-system/one and kube-system/two" in off.text
    back = of(node(cordoned=True), is_back=True, daemon_sets=[OURS, *odd]).next
    assert back is not None
    assert (back.name, back.command) == ("plugin-on", "")


@pytest.mark.parametrize(
    ("resource", "other"),
    [
        ("nvidia.com/gpu", ("nvidia-network-operator", "network-operator-sriov-device-plugin")),
        ("nvidia.com/gpu", ("kube-system", "nvidia-rdma-shared-device-plugin")),
        ("amd.com/gpu", ("kube-system", "kube-sriov-device-plugin-amd64")),
        ("volcano.sh/vgpu-number", ("volcano-system", "hami-device-plugin")),
    ],
)
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_plugin_of_other_devices_is_never_taken_off(resource: str, other: tuple[str, str], is_alone: bool) -> None:
    namespace, name = other
    sets = [daemon_set(name, selector={"a": "b"}), daemon_set("x", selector={"a": "b"})][: 1 if is_alone else 2]
    sets[0]["metadata"]["namespace"] = namespace
    pods = [pod("1", owner=name, namespace=namespace), pod("2", owner="x", namespace="kube-system")]
    wrong = node(cordoned=True, a="b")
    wrong["status"] = {"capacity": {resource: "8"}, "allocatable": {resource: "8"}}
    off = of(wrong, daemon_sets=[OURS, *sets], pods=pods).next
    assert off is not None
    assert (off.name, off.command) == ("plugin-off", "")
    back = of(wrong | {"status": {"capacity": {resource: "0"}}}, is_back=True, daemon_sets=[OURS, *sets]).next
    assert back is not None
    assert (back.name, back.command) == ("plugin-on", "")


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia.com/gpu", "nvidia-device-plugin-daemonset"),
        ("nvidia.com/gpu", "hami-device-plugin"),
        ("amd.com/gpu", "amdgpu-device-plugin-daemonset"),
        ("tencent.com/vcuda-core", "gpu-manager-daemonset"),
        ("elasticgpu.io/gpu-core", "elastic-gpu-agent"),
        ("aliyun.com/gpu-mem", "gpushare-device-plugin-ds"),
        ("volcano.sh/vgpu-number", "volcano-vgpu-device-plugin"),
        ("rdma/hca", "rdma-shared-dp-ds"),
    ],
)
def test_the_plugin_of_a_resource_is_known_by_its_name(resource: str, name: str) -> None:
    sets = [daemon_set(name, selector={"a": "b"}), FUSE]
    pods = [pod("1", owner=name, namespace="kube-system"), FUSE_POD]
    there = node(cordoned=True, a="b")
    there["status"] = {"capacity": {resource: "8"}, "allocatable": {resource: "8"}}
    off = of(there, daemon_sets=[OURS, *sets], pods=pods).next
    assert off is not None
    assert (off.name, off.command) == ("plugin-off", "kubectl label node n a-")


def test_of_several_plugins_that_it_may_be_none_is_taken_off() -> None:
    two = [daemon_set(name, selector={"a": "b"}) for name in ("nvidia-one", "nvidia-two")]
    pods = [pod(name, owner=name, namespace="kube-system") for name in ("nvidia-one", "nvidia-two")]
    off = of(node(capacity="8", cordoned=True, a="b"), daemon_sets=[OURS, *two], pods=pods).next
    assert off is not None
    assert (off.name, off.command) == ("plugin-off", "")
    assert "kube-system/nvidia-one and kube-system/nvidia-two" in off.text
    # On the way back, a label says which one it was.
    two[1]["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.deploy.device-plugin": "true"}
    off_label = {"nvidia.com__gpu.deploy.device-plugin": "false"}
    back = of(node(cordoned=True, a="b", **off_label), is_back=True, daemon_sets=[OURS, *two]).next
    assert back is not None
    assert back.command == "kubectl label node n nvidia.com/gpu.deploy.device-plugin=true --overwrite"
    unknown = of(node(cordoned=True, a="b"), is_back=True, daemon_sets=[OURS, *two]).next
    assert unknown is not None
    assert (unknown.name, unknown.command) == ("plugin-on", "")
    assert "nvidia-one" in unknown.text


def test_what_no_kubelet_takes_away_is_removed_by_hand() -> None:
    amounts = {"koordinator.sh/gpu": "800", "koordinator.sh/gpu-core": "800"}
    there = node(cordoned=True)
    there["status"] = {"capacity": amounts, "allocatable": amounts}
    off = of(there, daemon_sets=[OURS, FUSE], pods=[FUSE_POD]).next
    assert off is not None
    assert (off.name, off.state) == ("plugin-off", StepState.TO_DO)
    words = shlex.split(off.command)
    assert words[:7] == ["kubectl", "patch", "node", "n", "--subresource=status", "--type=json", "-p"]
    assert {"op": "remove", "path": "/status/capacity/koordinator.sh~1gpu-core"} in json.loads(words[7])
    assert len(json.loads(words[7])) == 4


def test_the_kubelets_five_minutes_are_waited_for() -> None:
    found = of(node(capacity="8", allocatable="0", cordoned=True))
    assert found.next is not None
    assert (found.next.name, found.next.state, found.next.command) == ("plugin-off", StepState.WAITING, "")
    assert "five minutes" in found.next.text


def test_a_resource_without_a_plugins_pod_is_somebody_elses_word() -> None:
    found = of(node(capacity="8", cordoned=True))
    assert found.next is not None
    assert (found.next.name, found.next.command) == ("plugin-off", "")
    assert "koord-device-daemon" in found.next.text


@pytest.mark.parametrize(
    ("labels", "selector", "command"),
    [
        ({"rootport.dev__maintenance": ""}, {}, "kubectl label node n rootport.dev/maintenance- --overwrite"),
        ({}, {"gpus": "rootport"}, "kubectl label node n gpus=rootport --overwrite"),
    ],
)
def test_rootport_comes_by_the_labels_that_keep_it_away(labels: dict[str, str], selector: Json, command: str) -> None:
    ours = daemon_set("rootport-kubelet-plugin", selector=selector, ours=True)
    found = of(node(cordoned=True, **labels), daemon_sets=[ours])
    assert found.next is not None
    assert (found.next.name, found.next.command) == ("rootport-on", command)


def test_devices_with_a_rivals_taint_are_not_published_yet() -> None:
    rivals = [{"name": "rdma/hca", "kind": "DevicePlugin", "message": "rdma/hca is there"}]
    found = of(node(cordoned=True), pods=[OUR_POD], slices=[slices(tainted=True)], inventory=inventory(rivals=rivals))
    assert found.next is not None
    assert (found.next.name, found.next.state) == ("published", StepState.WAITING)
    assert "rdma/hca is there" in found.next.text


def test_what_the_plugin_reports_is_told() -> None:
    bad = {"type": "Ready", "status": "False", "reason": "RuntimeTooOld", "message": "update containerd"}
    found = of(node(cordoned=True), pods=[OUR_POD], slices=[slices()], inventory=inventory(bad))
    assert found.next is not None
    assert found.next.text == "Ready: RuntimeTooOld: update containerd"


def test_the_last_step_lets_pods_come_and_then_all_is_done() -> None:
    there: Json = {"pods": [OUR_POD], "slices": [slices()], "inventory": inventory()}
    last = of(node(cordoned=True), **there).next
    assert last is not None
    assert last.command == "kubectl uncordon n"
    done = of(node(), **there)
    assert done.next is None
    assert set(states(done).values()) == {"done"}
    assert migration_to_wire(done)["next"] is None


def test_the_way_back_goes_through_its_own_steps() -> None:
    there: Json = {"pods": [OUR_POD], "slices": [slices()], "inventory": inventory(), "is_back": True}
    assert of(node(), **there, claims=[claim("c")]).next.name == "cordon"  # type: ignore[union-attr]
    drain = of(node(cordoned=True), **there, claims=[claim("c")]).next
    assert drain is not None
    assert (drain.name, "pod ml/p (1 of rootport.dev by claim ml/c)" in drain.text) == ("drain", True)
    off = of(node(cordoned=True), **there).next
    assert off is not None
    assert off.command == "kubectl label node n rootport.dev/maintenance="
    gone = of(node(cordoned=True), is_back=True, slices=[slices()], pods=[])
    assert states(gone)["withdrawn"] == "waiting"
    labels = {"rootport.dev__maintenance": "", "nvidia.com__gpu.deploy.device-plugin": "false"}
    on = of(node(cordoned=True, **labels), is_back=True).next
    assert on is not None
    assert on.command == "kubectl label node n nvidia.com/gpu.deploy.device-plugin=true --overwrite"
    back = of(node(capacity="8", **labels), is_back=True, pods=[NVIDIA_POD])
    assert back.next is None


def test_a_claim_that_no_pod_uses_is_to_be_deleted() -> None:
    found = of(node(cordoned=True), is_back=True, claims=[claim("c", pods=())], slices=[slices()]).next
    assert found is not None
    assert (found.command, "claim ml/c" in found.text, "delete the claims" in found.text) == ("", True, True)


@pytest.mark.parametrize("kind", ["pods", "claims", "slices", "daemon_sets"])
def test_what_cannot_be_read_is_not_known_and_never_done(kind: str) -> None:
    there: Json = {"pods": [OUR_POD], "slices": [slices()], "inventory": inventory()}
    found = of(node(cordoned=True), **there | {kind: None})
    assert found.next is not None
    assert found.next.state is StepState.NOT_KNOWN


def test_the_mig_manager_is_remarked() -> None:
    labels = {"nvidia.com__mig.config": "all-1g.10gb", "nvidia.com__mig.config.state": "success"}
    (remark,) = of(node(**labels)).remarks
    assert "nvidia.com/gpu.deploy.mig-manager=false" in remark
    assert of(node(**labels, **{"nvidia.com__gpu.deploy.mig-manager": "false"})).remarks == ()


@pytest.mark.parametrize("broken", [None, "x", 5, [], [None], {"a": None}])
def test_fields_of_another_form_count_as_absent(broken: Any) -> None:
    odd = {"metadata": broken, "spec": broken, "status": broken}
    found = of(odd, pods=[odd], claims=[odd], slices=[odd], daemon_sets=[odd], inventory=odd)
    assert found.next is not None


def test_names_of_objects_do_not_become_commands() -> None:
    evil = daemon_set("$(reboot)", affinity={})
    odd = pod("x", owner="$(reboot)", namespace="kube-system")
    found = of(node(capacity="1", cordoned=True), pods=[odd], daemon_sets=[OURS, evil]).next
    assert found is not None
    assert "'$(reboot)'" in found.command
