"""What is proposed for a claim that does not fit: the smallest change of each kind, each tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.explain.explanation import ChangeKind, Proposal
from driver.explain.judge.evaluation import Evaluations
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import Kind
from driver.explain.propose.proposals import MAX_TRIALS, proposals
from tests.unit.driver.explain.builders import Json, device_wire, slice_wire
from tests.unit.driver.explain.nearest_worlds import World, exactly

MODEL = 'device.attributes["d"].model == "{}"'


def kinds(found: tuple[Proposal, ...]) -> list[ChangeKind]:
    return [item.kind for item in found]


def only(found: tuple[Proposal, ...], kind: ChangeKind) -> Proposal:
    """The first of a kind."""
    return next(item for item in found if item.kind is kind)


def operations(proposal: Proposal) -> list[dict[str, Any]]:
    return [dict(item) for patch in proposal.patches for item in patch.operations]


@pytest.fixture
def world() -> World:
    return World()


def test_a_claim_that_fits_needs_nothing(world: World) -> None:
    world.add_node("n", device_wire("a"))
    assert world.ask(world.wire(exactly())) == ()


def test_fewer_devices_are_proposed_as_many_as_there_are(world: World) -> None:
    world.add_node("small", device_wire("a"))
    world.add_node("large", *(device_wire(f"a{number}") for number in range(5)))
    world.hold("other", "large", exactly(count=2))
    found = only(world.ask(world.wire(exactly(count=6))), ChangeKind.CHANGE_CLAIM)
    assert operations(found) == [{"op": "add", "path": "/spec/devices/requests/0/exactly/count", "value": 3}]
    assert (found.node, found.cost, found.verified) == ("large", 3, True)
    assert found.text == "ask for 3 devices in request r instead of 6"


def test_fewer_devices_are_as_many_as_a_constraint_leaves(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}", rail=number // 3) for number in range(8)))
    wire = world.wire(exactly(count=8), constraints=[{"matchAttribute": "d/rail"}])
    found = world.ask(wire, limit=5)
    assert {"op": "add", "path": "/spec/devices/requests/0/exactly/count", "value": 3} in [
        item for proposal in found for item in operations(proposal)
    ]


def test_all_devices_become_a_number_of_them(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}") for number in range(4)))
    world.hold("other", "n", exactly())
    found = only(world.ask(world.wire(exactly(allocationMode="All"))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == ["ExactCount", 3]


def test_more_than_a_claim_may_have_becomes_as_many_as_it_may_have(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}") for number in range(40)))
    found = only(world.ask(world.wire(exactly(count=40))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == [32]


def test_one_claim_is_ended_where_one_is_enough(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}") for number in range(4)))
    world.hold("one", "n", exactly())
    world.hold("two", "n", exactly(count=2))
    found = only(world.ask(world.wire(exactly(count=3))), ChangeKind.END_CLAIMS)
    assert [item.name for item in found.ends] == ["two"]
    assert [item.name for item in found.pods] == ["pod-two"]
    assert found.commands == ("kubectl -n ml delete pod pod-two",)


def test_ends_and_a_smaller_claim_are_both_shown(world: World) -> None:
    world.add_node("n", device_wire("a"), device_wire("b"))
    world.hold("one", "n", exactly())
    assert kinds(world.ask(world.wire(exactly(count=2)))) == [ChangeKind.CHANGE_CLAIM, ChangeKind.END_CLAIMS]


@pytest.mark.parametrize(("count", "ended"), [(2, 2), (3, 3), (5, 5)])
def test_as_few_claims_as_needed_are_ended(world: World, count: int, ended: int) -> None:
    world.add_node("n", *(device_wire(f"a{number}") for number in range(6)))
    for number in range(6):
        world.hold(f"c{number}", "n", exactly())
    found = only(world.ask(world.wire(exactly(count=count))), ChangeKind.END_CLAIMS)
    assert len(found.ends) == ended == found.cost


def test_the_two_that_are_enough_are_found_among_many_that_are_not(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}", rail=number % 4) for number in range(8)))
    for number in range(8):
        world.hold(f"c{number}", "n", exactly())
    wire = world.wire(exactly(count=2), constraints=[{"matchAttribute": "d/rail"}])
    assert len(only(world.ask(wire), ChangeKind.END_CLAIMS).ends) == 2


def test_a_claim_that_a_pod_uses_ends_rather_than_one_that_nothing_would_end(world: World) -> None:
    world.add_node("n", device_wire("a"), device_wire("b"))
    world.hold("a-unused", "n", exactly(), pod=False)
    world.hold("b-used", "n", exactly())
    assert [item.name for item in only(world.ask(world.wire(exactly())), ChangeKind.END_CLAIMS).ends] == ["b-used"]


def test_what_is_being_deleted_is_waited_for(world: World) -> None:
    world.add_node("n", device_wire("a"), device_wire("b"))
    world.hold("a-stays", "n", exactly())
    world.hold("b-goes", "n", exactly(), deleting=True)
    found = world.ask(world.wire(exactly()))
    assert found[0].kind is ChangeKind.WAIT
    assert [item.name for item in found[0].ends] == ["b-goes"]


def test_admin_access_is_never_ended(world: World) -> None:
    world.add_node("n", device_wire("a"))
    world.hold("admin", "n", exactly(adminAccess=True))
    world.hold("user", "n", exactly())
    assert [item.name for item in only(world.ask(world.wire(exactly())), ChangeKind.END_CLAIMS).ends] == ["user"]


def test_the_node_that_lacks_least_is_the_one(world: World) -> None:
    for name, held in (("empty", 4), ("nearly", 1), ("half", 2)):
        world.add_node(name, *(device_wire(f"a{number}") for number in range(4)))
        for number in range(held):
            world.hold(f"{name}{number}", name, exactly())
    found = only(world.ask(world.wire(exactly(count=4))), ChangeKind.END_CLAIMS)
    assert (found.node, len(found.ends)) == ("nearly", 1)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("H-100", "H100"), ("h100", "H100")],
)
def test_a_value_that_was_meant(world: World, asked: str, meant: str) -> None:
    world.add_node("n", device_wire("a", model=meant), device_wire("b", model="A30"))
    found = world.ask(world.wire(exactly("r", MODEL.format(asked))))
    assert found[0].kind is ChangeKind.CHANGE_CLAIM
    path = "/spec/devices/requests/0/exactly/selectors/0/cel/expression"
    assert operations(found[0]) == [{"op": "add", "path": path, "value": MODEL.format(meant)}]


def test_a_value_that_there_is_where_none_is_near(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30"))
    found = only(world.ask(world.wire(exactly("r", MODEL.format("MI300")))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == [MODEL.format("A30")]


def test_the_term_that_is_false_is_dropped_alone(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30", new=False))
    expression = f'{MODEL.format("A30")} && device.attributes["d"].new'
    found = only(world.ask(world.wire(exactly("r", expression))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == [MODEL.format("A30")]


def test_a_selector_of_which_nothing_is_left_is_dropped(world: World) -> None:
    world.add_node("n", device_wire("a", new=False))
    found = only(world.ask(world.wire(exactly("r", 'device.attributes["d"].new'))), ChangeKind.CHANGE_CLAIM)
    assert operations(found) == [{"op": "remove", "path": "/spec/devices/requests/0/exactly/selectors"}]


def test_an_attribute_that_was_meant(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30"))
    wire = world.wire(exactly("r", 'device.attributes["d"].gpuModel == "A30"'))
    found = world.ask(wire)
    assert [item["value"] for item in operations(found[0])] == [MODEL.format("A30")]


def test_devices_without_the_attribute_are_not_asked(world: World) -> None:
    world.add_node("n", device_wire("a"), device_wire("b", model="A30"))
    found = world.ask(world.wire(exactly("r", MODEL.format("A30"))))
    assert operations(found[0])[0]["value"] == f'has(device.attributes["d"].model) && ({MODEL.format("A30")})'


def test_one_wrong_selector_is_repaired_in_all_requests_that_have_it(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30"), device_wire("b", model="A30"))
    requests = [exactly(name, MODEL.format("a30")) for name in ("x", "y")]
    found = world.ask(world.wire(*requests))
    assert len(operations(found[0])) == 2


def test_a_class_that_was_meant(world: World) -> None:
    world.add_class("gpu.d")
    world.add_node("n", device_wire("a"))
    found = world.ask(world.wire(exactly(cls="GPU.d")))
    path = "/spec/devices/requests/0/exactly/deviceClassName"
    assert operations(found[0]) == [{"op": "add", "path": path, "value": "gpu.d"}]


@pytest.mark.parametrize("name", ["quantum", "gpu.nvidia.com"])
def test_a_class_that_nobody_knows_or_of_another_driver_is_to_be_made(world: World, name: str) -> None:
    world.add_class("gpu.rootport.dev")
    world.add_node("n", device_wire("a"))
    found = world.ask(world.wire(exactly(cls=name)))
    assert [(item.kind, item.verified) for item in found] == [(ChangeKind.CREATE_OBJECT, False)]


SHARED: Json = {
    "allowMultipleAllocations": True,
    "capacity": {
        "memory": {
            "value": "80Gi",
            "requestPolicy": {"default": "80Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "80Gi"}},
        }
    },
}


def memory(amount: str) -> dict[str, str]:
    return {"memory": amount}


def test_the_largest_free_part_is_proposed(world: World) -> None:
    world.add_node("n", device_wire("a", extra=SHARED), device_wire("b", extra=SHARED))
    world.hold("one", "n", exactly(capacity=memory("50Gi")))
    world.hold("two", "n", exactly(capacity=memory("60Gi")))
    found = only(world.ask(world.wire(exactly(capacity=memory("40Gi")))), ChangeKind.CHANGE_CLAIM)
    path = "/spec/devices/requests/0/exactly/capacity/requests/memory"
    assert operations(found) == [{"op": "add", "path": path, "value": "30Gi"}]


def test_a_share_is_proposed_to_who_asks_for_all_of_a_device(world: World) -> None:
    world.add_node("n", device_wire("a", extra=SHARED))
    world.hold("one", "n", exactly(capacity=memory("20Gi")))
    found = only(world.ask(world.wire(exactly())), ChangeKind.CHANGE_CLAIM)
    path = "/spec/devices/requests/0/exactly/capacity"
    assert operations(found) == [{"op": "add", "path": path, "value": {"requests": memory("60Gi")}}]


def test_more_than_any_device_has_becomes_the_most_that_one_has(world: World) -> None:
    world.add_node("n", device_wire("a", extra=SHARED))
    found = only(world.ask(world.wire(exactly(capacity=memory("100Gi")))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == ["80Gi"]


def test_an_amount_is_rounded_to_what_the_policy_has(world: World) -> None:
    values = {"default": "80Gi", "validValues": ["10Gi", "20Gi", "40Gi", "80Gi"]}
    extra = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi", "requestPolicy": values}}}
    world.add_node("n", device_wire("a", extra=extra))
    world.hold("one", "n", exactly(capacity=memory("40Gi")))
    world.hold("two", "n", exactly(capacity=memory("10Gi")))
    found = only(world.ask(world.wire(exactly(capacity=memory("35Gi")))), ChangeKind.CHANGE_CLAIM)
    assert [item["value"] for item in operations(found)] == ["20Gi"]


def test_a_capacity_that_was_meant(world: World) -> None:
    world.add_node("n", device_wire("a", extra=SHARED))
    found = world.ask(world.wire(exactly(capacity={"memmory": "10Gi"})))
    assert operations(found[0]) == [
        {"op": "add", "path": "/spec/devices/requests/0/exactly/capacity/requests/memory", "value": "10Gi"},
        {"op": "remove", "path": "/spec/devices/requests/0/exactly/capacity/requests/memmory"},
    ]


TAINT: Json = {"taints": [{"key": "d/broken", "value": "xid", "effect": "NoSchedule"}]}


def test_a_taint_of_the_driver_is_repaired_or_tolerated(world: World) -> None:
    world.add_node("n", device_wire("a", extra=TAINT))
    found = world.ask(world.wire(exactly()))
    assert kinds(found) == [ChangeKind.CHANGE_DEVICE_TAINT, ChangeKind.CHANGE_CLAIM]
    assert "d/broken=xid:NoSchedule" in found[0].text
    assert operations(found[1])[0]["value"] == [
        {"key": "d/broken", "operator": "Equal", "value": "xid", "effect": "NoSchedule"}
    ]


ROUTE: Json = {"taints": [{"key": "rootport.dev/default-route", "effect": "NoSchedule"}]}


def test_the_taint_of_the_default_route_leads_to_the_policies_and_to_a_toleration(world: World) -> None:
    world.add_node("n")
    world.add_slice(slice_wire("n", device_wire("a", extra=ROUTE), driver="rootport.dev"))
    found = world.ask(world.wire(exactly()))
    assert "defaultRoute: allow in the DevicePolicies" in found[0].text
    assert "tolerations: [{key: rootport.dev/default-route, operator: Exists}]" in found[0].text
    assert operations(found[1])[0]["value"] == [
        {"key": "rootport.dev/default-route", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_constraints_are_loosened_before_they_are_dropped(world: World) -> None:
    switch, root = "rootport.dev/pcieSwitch", "resource.kubernetes.io/pcieRoot"
    devices = [
        {"name": f"a{number}", "attributes": {switch: {"string": f"s{number}"}, root: {"string": "pci0000:00"}}}
        for number in range(2)
    ]
    world.add_node("n", *devices)
    found = world.ask(world.wire(exactly(count=2), constraints=[{"matchAttribute": switch}]))
    assert operations(found[0]) == [{"op": "add", "path": "/spec/devices/constraints/0/matchAttribute", "value": root}]


def test_only_the_constraint_that_stands_in_the_way_is_dropped(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}", rail=number, host=1) for number in range(2)))
    constraints = [{"matchAttribute": "d/host"}, {"matchAttribute": "d/rail"}]
    found = world.ask(world.wire(exactly("x"), exactly("y"), constraints=constraints), limit=5)
    assert [{"op": "remove", "path": "/spec/devices/constraints/1"}] in [operations(item) for item in found]


def test_values_that_must_differ_and_cannot(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}", rail=1) for number in range(2)))
    wire = world.wire(exactly("x"), exactly("y"), constraints=[{"distinctAttribute": "d/rail"}])
    found = world.ask(wire, limit=5)
    assert [{"op": "remove", "path": "/spec/devices/constraints/0"}] in [operations(item) for item in found]


def test_an_attribute_of_a_constraint_that_was_meant(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}", rail=1) for number in range(2)))
    found = world.ask(world.wire(exactly(count=2), constraints=[{"matchAttribute": "d/rial"}]))
    assert [item["value"] for item in operations(found[0])] == ["d/rail"]


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        (
            'device.capacity["d"].memory.compareTo(quantity("40GB")) >= 0',
            'device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0',
        ),
        ('device.attributes["d"].profile == "1g.5gb"', 'device.attributes["d"].profile == "1g.10gb"'),
        (
            'device.attributes["d"].?profile.orValue("") == "1g.5gb"',
            'device.attributes["d"].?profile.orValue("") == "1g.10gb"',
        ),
    ],
    ids=["bytes in another notation", "of equals the nearest number", "what stands in for an absent value"],
)
def test_the_value_that_was_meant_is_written(world: World, expression: str, meant: str) -> None:
    profiles = ("1g.10gb", "1g.20gb", "3g.40gb")
    world.add_node("n", *(device_wire(f"a{at}", profile=text, capacity={"memory": "80Gi"})
                          for at, text in enumerate(profiles)))  # fmt: skip
    found = world.ask(world.wire(exactly("r", expression)))
    assert [item["value"] for item in operations(found[0])] == [meant]


def test_pairs_are_left_out_with_their_constraints(world: World) -> None:
    gpus = [device_wire(f"gpu{number}", type="gpu", switch=number) for number in range(2)]
    nics = [device_wire(f"nic{number}", type="nic", switch=number) for number in range(2)]
    world.add_node("n", *gpus, *nics)
    requests, constraints = [], []
    for number in range(3):
        requests += [exactly(f"{kind}{number}", f'device.attributes["d"].type == "{kind}"') for kind in ("gpu", "nic")]
        constraints.append({"matchAttribute": "d/switch", "requests": [f"gpu{number}", f"nic{number}"]})
    found = only(world.ask(world.wire(*requests, constraints=constraints)), ChangeKind.CHANGE_CLAIM)
    assert [item["path"] for item in operations(found)] == [
        "/spec/devices/requests/5",
        "/spec/devices/requests/4",
        "/spec/devices/constraints/2",
    ]


def test_two_changes_where_one_is_not_enough(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30", extra=TAINT))
    found = world.ask(world.wire(exactly("r", MODEL.format("a30"))))
    assert found
    assert len(operations(found[0])) == 2
    assert ", and " in found[0].text


def test_a_wrong_name_and_devices_in_use(world: World) -> None:
    world.add_node("n", device_wire("a", model="A30"))
    world.hold("one", "n", exactly())
    found = only(world.ask(world.wire(exactly("r", MODEL.format("a30")))), ChangeKind.END_CLAIMS)
    assert operations(found)
    assert [item.name for item in found.ends] == ["one"]


def pod(**spec: Any) -> Json:
    claims = [{"name": "c", "resourceClaimName": "c"}]
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": {"resourceClaims": claims, **spec}}


def test_a_cordoned_node_is_uncordoned(world: World) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    world.add_node("n", device_wire("a"), unschedulable=True, taints=[taint])
    found = world.ask(world.wire(exactly()), pod=pod())
    assert (found[0].kind, found[0].commands) == (ChangeKind.CHANGE_NODE, ("kubectl uncordon n",))


def test_the_label_that_the_node_lacks_is_taken_out_of_the_pod(world: World) -> None:
    world.add_node("n", device_wire("a"), labels={"zone": "1"})
    found = world.ask(world.wire(exactly()), pod=pod(nodeSelector={"zone": "1", "pool": "x"}))
    assert found[0].kind is ChangeKind.CHANGE_POD
    assert "pool: x" in found[0].text
    assert "zone" not in found[0].text


def test_a_node_taint_is_taken_off_or_tolerated_by_the_pod(world: World) -> None:
    world.add_node("n", device_wire("a"), taints=[{"key": "gpu", "value": "only", "effect": "NoSchedule"}])
    found = world.ask(world.wire(exactly()), pod=pod())
    assert set(kinds(found)) == {ChangeKind.CHANGE_NODE, ChangeKind.CHANGE_POD}
    assert only(found, ChangeKind.CHANGE_NODE).commands == ("kubectl taint nodes n gpu:NoSchedule-",)
    assert "gpu=only:NoSchedule" in only(found, ChangeKind.CHANGE_POD).text


def test_an_incomplete_pool_is_waited_for(world: World) -> None:
    world.add_node("n")
    where = {"driver": "d", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2}, "nodeName": "n"}
    world.add_slice({"metadata": {"name": "n-0"}, "spec": {**where, "devices": [device_wire("a")]}})
    found = world.ask(world.wire(exactly()))
    assert [(item.kind, item.verified) for item in found] == [(ChangeKind.WAIT, False)]


def test_a_template_that_is_not_there(world: World) -> None:
    world.state.put(Kind.TEMPLATE, {"metadata": {"name": "gpus", "namespace": "ml"}, "spec": {"spec": {}}})
    claims = [{"name": "c", "resourceClaimTemplateName": "gpu"}]
    found = world.ask(pod={"metadata": {"name": "p", "namespace": "ml"}, "spec": {"resourceClaims": claims}})
    assert [item.kind for item in found] == [ChangeKind.CHANGE_POD, ChangeKind.CREATE_OBJECT]
    assert not any(item.verified for item in found)


def test_work_is_bounded_whatever_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("m", "n"):
        world.add_node(name, *(device_wire(f"a{number}", rail=number, model=f"M{number}") for number in range(64)))
        for number in range(40):
            world.hold(f"{name}{number}", name, exactly())
    requests = [
        exactly(f"r{number}", f'{MODEL.format(f"X{number}")} && device.attributes["d"].rail > {number + 90}')
        for number in range(31)
    ]
    constraints = [{"matchAttribute": "d/rail", "requests": [f"r{number}"]} for number in range(30)]
    asked = []
    fits = Trial.fits

    def counted(trial: Trial, *args: Any, **kwargs: Any) -> bool:
        asked.append(trial)
        return fits(trial, *args, **kwargs)

    case, verdicts = world.case(world.wire(*requests, constraints=constraints))
    monkeypatch.setattr(Trial, "fits", counted)
    proposals(world.state, case, verdicts, Evaluations(world.state))
    assert 0 < len(asked) <= MAX_TRIALS


def test_nothing_is_proposed_to_a_claim_that_fits_and_hangs_for_another_reason(world: World) -> None:
    world.add_node("n", device_wire("a"), device_wire("b"))
    case, _ = world.case(world.wire(exactly(count=2)))
    assert proposals(world.state, replace(case, demands=()), (), Evaluations(world.state)) == ()


def test_a_smaller_claim_where_evaluation_did_not_come_to_the_nodes(world: World) -> None:
    world.add_node("n", *(device_wire(f"a{number}") for number in range(40)))
    case, _ = world.case(world.wire(exactly(count=40)))
    found = proposals(world.state, replace(case, demands=()), (), Evaluations(world.state))
    assert [item["value"] for item in operations(found[0])] == [32]
