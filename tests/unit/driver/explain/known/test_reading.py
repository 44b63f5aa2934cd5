"""What is kept of the API's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.allocator.identity import DeviceId
from driver.api.resource_v1 import ResourceSlice
from driver.explain.known.cluster import NodeTaint, PodClaim, PodState, PodToleration
from driver.explain.known.pod_reading import read_pod
from driver.explain.known.reading import (
    UnreadableError,
    read_claim_state,
    read_class,
    read_inventory,
    read_node,
    read_safely,
    read_taint_rule,
)
from driver.explain.known.slice_reading import SliceReader
from driver.layout.slices import resource_slices
from tests.support.mig_machines import dgx_h100
from tests.unit.driver.explain.builders import (
    allocated,
    claim_wire,
    device_wire,
    exactly,
    node_wire,
    pod_wire,
    slice_wire,
)

Json = dict[str, Any]

ODD_DEVICES = [
    pytest.param({"name": "d", "nodeName": "n"}, id="its own node"),
    pytest.param({"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}, id="a taint"),
    pytest.param({"name": "d", "attributes": {"a": {"ints": [1, 2]}}}, id="a list as attribute"),
    pytest.param({"name": "d", "attributes": {"a": {"bool": True}, "b": {"int": 1}}}, id="true and one"),
    pytest.param({"name": "d", "attributes": None, "capacity": None}, id="nulls"),
    pytest.param({"name": "d", "attributes": {"a": {"int": 1, "string": None}}}, id="a null beside a value"),
    pytest.param({"name": "d", "attributes": {"a": {}, "b": {"int": 1, "string": "x"}}}, id="none and two values"),
    pytest.param({"name": "d", "bindingConditions": ["ready"], "bindsToNode": True}, id="binding conditions"),
    pytest.param({"name": "d", "allowMultipleAllocations": False}, id="not shareable"),
    pytest.param({"name": "d", "capacity": {"m": {"value": "80Gi"}, "n": {"value": "1"}}}, id="capacities"),
    pytest.param(
        {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}, id="uses"
    ),
]


@pytest.mark.parametrize("device", ODD_DEVICES)
def test_a_device_is_read_as_pydantic_reads_it(device: Json) -> None:
    wire = slice_wire("n", device)

    reader = SliceReader()
    for _ in range(3):  # what is kept to be found again is another way than what is read for the first time
        read = reader.read(wire)
        assert read.spec == ResourceSlice.model_validate(_without_kind(wire)).spec


def test_every_slice_of_a_real_layout_is_read_as_pydantic_reads_it() -> None:
    reader = SliceReader()
    for node in ("gpu-a", "gpu-b", "gpu-c"):
        for item in resource_slices(dgx_h100(node)):
            read = reader.read(json.loads(json.dumps(item.to_wire())))
            assert read.spec == item.spec
            assert read.metadata.name == item.metadata.name


def test_equal_devices_of_many_nodes_are_held_once_and_those_with_a_uuid_are_not_kept() -> None:
    reader = SliceReader()

    def read(node: str) -> ResourceSlice:
        devices = [
            device_wire("nic-0", type="rdma", rail=0),
            device_wire("gpu-0", type="gpu", uuid=f"GPU-{node}", extra={"allowMultipleAllocations": True}),
        ]
        return reader.read(json.loads(json.dumps(slice_wire(node, *devices))))

    slices = [read(f"n{number}") for number in range(10)]

    assert slices[8].spec.devices[0] is slices[9].spec.devices[0]
    assert slices[9].spec.devices[1].attributes["uuid"].string_value == "GPU-n9"
    assert slices[9].spec.devices[1].attributes["type"] is slices[0].spec.devices[1].attributes["type"]
    assert len(reader._devices) == 1


def test_slices_with_equal_devices_alone_share_their_tuple() -> None:
    reader = SliceReader()
    slices = [reader.read(slice_wire(f"n{number}", device_wire("nic-0"), device_wire("nic-1"))) for number in range(3)]

    assert slices[1].spec.devices is slices[2].spec.devices


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.explain.known.slice_reading._MOST", 50)
    reader = SliceReader()

    for number in range(500):
        item = reader.read(slice_wire("n", device_wire("gpu-0", uuid=f"GPU-{number}")))
        assert item.spec.devices[0].attributes["uuid"].string_value == f"GPU-{number}"

    assert len(reader._attributes) <= 51


def test_fields_of_a_newer_api_in_a_slice_are_passed_over() -> None:
    device = {"name": "d", "colour": "red", "attributes": {"a": {"int": 1, "unit": "m"}}}

    read = SliceReader().read(slice_wire("n", device, priority=3))

    assert read.spec.devices[0].attributes["a"].int_value == 1


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        pytest.param(slice_wire("n", {}), "the field 'name' is missing", id="a device without a name"),
        pytest.param(slice_wire("n", {"name": 3}), "a text was expected, not 3", id="a number as name"),
        pytest.param(
            slice_wire("n", {"name": "d", "attributes": {"a": {"int": "x"}}}), "int: ", id="a wrong attribute"
        ),
        pytest.param(
            slice_wire("n", {"name": "d", "capacity": {"m": {"value": "80 Gb"}}}),
            "capacity.m.value: ",
            id="no quantity",
        ),
        pytest.param(slice_wire("n", driver=None), "driver: ", id="no driver"),  # type: ignore[arg-type]
        pytest.param({"metadata": {"name": "s"}}, "the field 'spec' is missing", id="no spec"),
    ],
)
def test_a_broken_slice_says_which_field(wire: Json, told: str) -> None:
    with pytest.raises(UnreadableError, match=told):
        read_safely(SliceReader().read, wire)


# Claims


def test_a_pending_claim_has_the_apis_defaults() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}

    claim = read_claim_state(claim_wire("c", request)).claim

    assert claim is not None
    assert claim.spec.devices.requests[0].exactly is not None
    assert claim.spec.devices.requests[0].exactly.count == 1
    assert claim.reference.uid == "uid-of-c"


def test_of_an_allocated_claim_only_what_it_holds_is_kept() -> None:
    allocation = allocated("n1", "gpu-0", shareID="s", consumedCapacity={"memory": "1Gi"})

    state = read_claim_state(claim_wire("c", exactly("r", "gpu"), allocation=allocation))

    assert state.claim is None
    assert state.allocated
    (held,) = state.holds
    assert held.device == DeviceId("rootport.dev", "n1", "gpu-0")
    assert held.share_id == "s"
    assert held.consumed == {"memory": 2**30 * 10**9}


def test_claims_allocated_on_one_node_share_their_node_selector() -> None:
    first, second = (read_claim_state(claim_wire(name, allocation=allocated("n1", name))) for name in ("a", "b"))

    assert first.available_on is not None
    assert first.available_on is second.available_on
    assert first.available_on.node_selector_terms[0].match_fields[0].values == ("n1",)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({"nodeSelectorTerms": []}, id="no terms"),
        pytest.param({"nodeSelectorTerms": [{"matchFields": []}]}, id="no fields"),
        pytest.param(
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
            id="labels",
        ),
        pytest.param(
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]},
            id="another node",
        ),
    ],
)
def test_other_node_selectors_stay_what_they_are(selector: Json) -> None:
    allocation = allocated("n1", "d") | {"nodeSelector": selector}

    read = read_claim_state(claim_wire("c", allocation=allocation)).available_on

    assert read is not None
    terms = selector["nodeSelectorTerms"]
    assert len(read.node_selector_terms) == len(terms)
    if terms and terms[0].get("matchFields"):
        assert read.node_selector_terms[0].match_fields[0].operator == "NotIn"


def test_whom_a_claim_is_reserved_for_and_whose_it_is() -> None:
    wire = claim_wire("c")
    wire["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    }
    wire["status"]["reservedFor"] = [
        {"resource": "pods", "name": "p", "uid": "u"},
        {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "v"},
    ]

    state = read_claim_state(wire)

    assert state.pods == (("p", "u"),)
    assert state.pod_groups == (("g", "v"),)
    assert state.is_reserved_for(PodState(namespace="default", name="q", uid="w", group="g"))
    assert not state.is_reserved_for(PodState(namespace="default", name="q", uid="w", group="h"))
    assert state.owner_pod == ("p", "u")
    assert state.deleting
    assert not state.reserved_full


@pytest.mark.parametrize(("count", "full"), [(255, False), (256, True)])
def test_a_claim_is_full_with_256_pods(count: int, full: bool) -> None:
    wire = claim_wire("c")
    wire["status"]["reservedFor"] = [{"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(count)]

    assert read_claim_state(wire).reserved_full is full


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            {"spec": {"devices": {"requests": [{"name": "r", "anyOf": []}]}}}, "requests[0].anyOf", id="field"
        ),
        pytest.param({"apiVersion": "resource.k8s.io/v1beta1"}, "v1beta1", id="an older version"),
        pytest.param({"spec": {"devices": {"requests": 3}}}, "devices.requests", id="another type"),
    ],
)
def test_a_claim_that_this_version_does_not_know_says_what_it_does_not_know(change: Json, told: str) -> None:
    state = read_claim_state(claim_wire("c") | change)

    assert state.claim is None
    assert told in state.unreadable


# Pods and nodes


def test_a_pods_claims_are_those_it_names_and_those_made_for_it() -> None:
    wire = pod_wire("p", "named")
    wire["spec"]["resourceClaims"] += [
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "missing", "resourceClaimTemplateName": "t"},
        {"name": "needless", "resourceClaimTemplateName": "t"},
    ]
    wire["status"]["resourceClaimStatuses"] = [
        {"name": "made", "resourceClaimName": "p-made-x7"},
        {"name": "needless"},
    ]

    assert read_pod(wire).claims == (
        PodClaim(name="named", claim="named"),
        PodClaim(name="made", claim="p-made-x7", template="t"),
        PodClaim(name="missing", template="t"),
        PodClaim(name="needless", template="t", needs_none=True),
    )


def test_what_decides_about_a_pods_place_is_read() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    pod = read_pod(
        pod_wire(
            "p",
            nodeSelector={"zone": "a"},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "value": "v"}],
            schedulingGates=[{"name": "quota"}],
            schedulerName="volcano",
        )
    )

    assert pod.node_selector == {"zone": "a"}
    assert pod.affinity is not None
    assert pod.affinity.node_selector_terms[0].match_expressions[0].key == "zone"
    assert pod.tolerations == (
        PodToleration(key="gpu", operator="Exists", effect="NoSchedule"),
        PodToleration(key="k", value="v"),
    )
    assert (pod.gates, pod.scheduler, pod.node) == (("quota",), "volcano", "")


def test_what_the_scheduler_and_kubelet_say_of_a_pod_is_read() -> None:
    wire = pod_wire("p", node="n1")
    wire["status"] |= {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
        "containerStatuses": [
            {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}},
            {"name": "side", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "third", "state": {"running": {}}},
        ],
    }

    pod = read_pod(wire)

    assert pod.scheduler_message == "0/1 nodes are available"
    assert pod.waiting == "main: ErrImagePull: not found; side: ContainerCreating"


def test_a_node_says_why_it_is_not_ready_and_what_taints_it_has() -> None:
    node = node_wire("n1", ready="Unknown", taints=[{"key": "gpu", "effect": "NoSchedule"}], labels={"zone": "a"})
    node["spec"]["unschedulable"] = True

    state = read_node(node)

    assert state.not_ready == "NodeStatusUnknown"
    assert state.taints == (NodeTaint(key="gpu", effect="NoSchedule"),)
    assert state.unschedulable
    assert state.node.metadata.labels["zone"] == "a"


def test_a_node_without_conditions_counts_as_ready() -> None:
    assert read_node({"metadata": {"name": "n"}}).not_ready == ""


# The rest


def test_a_class_of_a_newer_api_is_read_as_far_as_it_is_known() -> None:
    wire = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}], "colour": "red"}}

    assert read_class(wire).spec.selectors[0].cel is not None


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_taint_rules_of_all_versions_are_read(version: str) -> None:
    taint = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    spec = {"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}, "taint": taint}

    rule = read_taint_rule({"apiVersion": f"resource.k8s.io/{version}", "metadata": {"name": "r"}, "spec": spec})

    assert (rule.name, rule.driver, rule.pool, rule.device) == ("r", "d", "p", "x")
    assert (rule.taint.key, rule.taint.value, rule.taint.effect) == ("k", "v", "NoExecute")


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        pytest.param([], "", id="none"),
        pytest.param([{"type": "Ready", "status": "True"}, {"type": "Published", "status": "True"}], "", id="well"),
        pytest.param(
            [{"type": "Ready", "status": "False", "reason": "NoDriver", "message": "no NVML"}],
            "Ready: False, NoDriver: no NVML",
            id="the plugin is not ready",
        ),
        pytest.param([{"type": "RuntimeReadsCdi", "status": "Unknown"}], "", id="a check that warns"),
    ],
)
def test_of_an_inventory_the_conditions_that_sum_up_are_told(conditions: list[Json], told: str) -> None:
    assert read_inventory({"status": {"conditions": conditions}}).problem == told


def _without_kind(wire: Json) -> Json:
    return {"metadata": wire["metadata"], "spec": wire["spec"]}


def test_what_the_controller_left_out_stands_behind_the_count() -> None:
    message = "devices: 8, ResourceSlices: 1, pool generation: 1; not published (no device node): rdma-1; and more"
    condition = {"type": "Published", "status": "True", "reason": "Published", "message": message}
    assert read_inventory({"status": {"conditions": [condition]}}).remark == (
        "not published (no device node): rdma-1; and more"
    )
    assert read_inventory({"status": {"conditions": [condition | {"status": "False"}]}}).remark == ""
    assert read_inventory({}).remark == ""
