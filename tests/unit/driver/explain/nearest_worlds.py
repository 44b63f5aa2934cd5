"""Small clusters to ask for proposals about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driver.allocator import Allocator
from driver.allocator.demands import read_claim
from driver.allocator.errors import AllocationError
from driver.api.resource_v1 import AllocationResult, ResourceClaim, ResourceSlice
from driver.explain.explanation import Finding, Proposal
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.device_judge import DeviceJudge
from driver.explain.judge.evaluation import Evaluations
from driver.explain.judge.placement import node_refusal
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.propose.proposals import proposals
from tests.support.json_patch import patched
from tests.unit.driver.explain import builders as builders_explain
from tests.unit.driver.explain.builders import Json, claim_wire, class_wire, node_wire, slice_wire

__all__ = ["World", "exactly", "ledger_of"]

DRIVER = "d"


def exactly(name: str = "r", *expressions: str, cls: str = "any", **fields: Any) -> Json:
    """A request for devices of any kind."""
    return builders_explain.exactly(name, cls, *expressions, **fields)


class World:
    """A cluster as the API server stores it, its state, and a fresh allocator over the same objects."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.slices: list[ResourceSlice] = []
        self.given: dict[str, AllocationResult] = {}
        self.deleting: set[str] = set()
        self.add_class("any")

    def add_class(self, name: str, *expressions: str) -> None:
        self.state.put(Kind.CLASS, class_wire(name, *expressions))

    def add_node(self, name: str, *devices: Json, labels: Mapping[str, str] | None = None, **spec: Any) -> None:
        """A node and its pool of the driver ``d``."""
        self.state.put(Kind.NODE, node_wire(name, labels=labels, **spec))
        if devices:
            self.add_slice(slice_wire(name, *devices, driver=DRIVER))

    def add_slice(self, wire: Json) -> None:
        self.state.put(Kind.SLICE, wire)
        self.slices.append(ResourceSlice.model_validate(wire))

    def wire(self, *requests: Json, name: str = "c", constraints: Sequence[Json] = (), **devices: Any) -> Json:
        return claim_wire(name, *requests, **({"constraints": list(constraints)} if constraints else {}), **devices)

    def hold(self, name: str, node: str, *requests: Json, pod: bool = True, deleting: bool = False) -> None:
        """A claim that is allocated on ``node``, and used by a pod of its name."""
        wire = self.wire(*requests, name=name)
        results = self.allocator().allocate(self.state.nodes[node].node, [ResourceClaim.model_validate(wire)])
        assert results is not None, f"{name} does not fit on {node}"
        self.given[name] = results[0]
        wire["status"] = {"allocation": results[0].to_wire()}
        if deleting:
            wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            wire["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        if pod:
            wire["status"]["reservedFor"] = [{"resource": "pods", "name": f"pod-{name}", "uid": f"pod-uid-{name}"}]
        self.state.put(Kind.CLAIM, wire)

    def allocator(self, without: Iterable[str] = ()) -> Allocator:
        """A fresh one, over what is published and held."""
        allocator = Allocator(self.slices, list(self.state.classes.values()))
        allocator.commit(result for name, result in self.given.items() if name not in set(without))
        return allocator

    def case(self, *wires: Json, pod: Json | None = None) -> tuple[Case, list[NodeVerdict]]:
        """What the explainer would ask about: the claims are put, and judged on every node."""
        for wire in wires:
            self.state.put(Kind.CLAIM, wire)
        if pod is not None:
            self.state.put(Kind.POD, pod)
        found = [self.state.claim(f"ml/{wire['metadata']['name']}") for wire in wires]
        claims = tuple(claim for claim in found if claim is not None)
        plain = [claim.claim for claim in claims if claim.claim is not None]
        of_pod = self.state.pod(f"ml/{pod['metadata']['name']}") if pod is not None else None
        try:
            demands = tuple(read_claim(claim, self.state.classes, self.state.features) for claim in plain)
        except AllocationError:
            return Case(pod=of_pod, claims=claims, demands=()), []
        nodes = list(self.state.nodes.values())
        verdicts = []
        judge = DeviceJudge(self.state, Trial(self.state), Evaluations(self.state))
        for node, judgement in zip(nodes, judge.judge(nodes, plain, demands), strict=True):
            devices = Finding(reason=judgement.reason, message="") if judgement.reason is not None else None
            there = node_refusal(of_pod, node, ())
            verdicts.append(
                NodeVerdict(node=node, placement=there, devices=devices, lacks=judgement.lacks, left=judgement.left)
            )
        return Case(pod=of_pod, claims=claims, demands=demands), verdicts

    def ask(self, *wires: Json, pod: Json | None = None, limit: int = 3) -> tuple[Proposal, ...]:
        """The proposals, each tried: with its patches applied and its claims ended a fresh allocator finds devices."""
        case, verdicts = self.case(*wires, pod=pod)
        before = ledger_of(self.state)
        found = proposals(self.state, case, verdicts, Evaluations(self.state), limit=limit)
        assert ledger_of(self.state) == before
        for proposal in found:
            if proposal.verified and proposal.kind in {"ChangeClaim", "EndClaims", "Wait"}:
                assert self.is_enough(proposal, wires), proposal.text
        return found

    def is_enough(self, proposal: Proposal, wires: Sequence[Json]) -> bool:
        """Whether the proposal makes the claims fit on its node."""
        operations = {patch.claim.name: patch.operations for patch in proposal.patches}
        changed = [patched(wire, operations.get(wire["metadata"]["name"], ())) for wire in wires]
        claims = [ResourceClaim.model_validate(wire) for wire in changed]
        allocator = self.allocator(without=[item.name for item in proposal.ends])
        return allocator.allocate(self.state.nodes[proposal.node].node, claims) is not None


def ledger_of(state: ClusterState) -> object:
    """All that is in use, to compare."""
    ledger = state.ledger
    consumed = {device: dict(amounts) for device, amounts in ledger._consumed.items()}
    whole = {pool: dict(names) for pool, names in ledger._whole.items()}
    shares = {pool: dict(names) for pool, names in ledger._shares.items()}
    return whole, shares, consumed
