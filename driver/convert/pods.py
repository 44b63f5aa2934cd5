"""Converts one pod: a claim for each container that asks for devices, and what init containers may use of them.

Device plugins give devices to a container, so each gets a claim of its own: two shares in one claim would share one
environment. Only GPUs and NICs of different containers that are allocated together are in one claim of the pod. The
kubelet lets containers use again what init containers had (k8s.io/kubernetes, pkg/kubelet/cm/devicemanager), so an init
container that asks for no more than a container uses that one's claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from driver.api.pod_templates import PodSpec, Steps, containers, field_path
from driver.convert.containers import AskingContainer, ReadContainer, asking_containers, is_init, read_container
from driver.convert.dialect import Amount, Dialect, Meaning, PodFacts, PodReading, Where
from driver.convert.dialects import dialects_for
from driver.convert.findings import Finding, Outcome, worst
from driver.convert.node_labels import node_label_findings
from driver.convert.pod_claims import PodClaim, PodClaims
from driver.convert.settings import Settings

__all__ = ["ConvertedPod", "converted_pod"]

_MOST_CONTAINERS: Final = 256
"""The most containers of a pod that are converted."""
_PLACED: Final = (
    "kube-scheduler allocates claims, and does not see a pod that names its node: use nodeSelector in its place"
)
_KUBE_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedPod:
    """A pod's new claims, and what leaves its spec and its metadata.

    Attributes:
        claims: The claims.
        uses: What each container names, by its field: claims with a request of theirs, or an empty text for all.
        resources: The resources that leave each container, by its field.
        annotations: The annotations that leave the pod.
        drops_scheduler: Whether ``schedulerName`` goes.
        read: What each container asks for that asks for devices; empty where they are too many.
        findings: What was read.
    """

    claims: tuple[PodClaim, ...] = ()
    uses: Mapping[Steps, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    resources: Mapping[Steps, frozenset[str]] = field(default_factory=dict)
    annotations: frozenset[str] = frozenset()
    drops_scheduler: bool = False
    read: tuple[ReadContainer, ...] = ()
    findings: tuple[Finding, ...] = ()


def converted_pod(pod: PodSpec, settings: Settings, namespace: str = "") -> ConvertedPod | None:
    """Return what becomes of a pod; None if it asks for no devices in any dialect.

    Args:
        pod: The pod, as it was written.
        settings: How to convert.
        namespace: The object's; empty where it names none.

    Raises:
        SpentError: The budget in force (:mod:`driver.budget`) is spent.
    """
    facts = PodFacts.of(pod, settings, namespace)
    asking = list(asking_containers(pod, facts))
    if not asking:
        return None
    if len(asking) > _MOST_CONTAINERS:
        part = asking[-1].parts[0]
        text = f"{len(asking)} containers ask for devices: at most {_MOST_CONTAINERS} of a pod are converted"
        return ConvertedPod(findings=(asking[-1].finding(part.held[0], part.dialect.name, Outcome.REFUSED, text),))
    dialects, pods = _read_pod(asking, facts)
    read = [read_container(container, facts, pods) for container in asking]
    findings = [*_pod_findings(facts, dialects, pods)]
    findings += _scheduler(pod, facts, said={finding.field for finding in findings})
    findings += _placed(pod)
    findings += node_label_findings(pod)
    findings += [finding for each in read for finding in each.findings]
    if worst(tuple(findings)) is Outcome.REFUSED:
        return ConvertedPod(read=tuple(read), findings=tuple(findings))
    claims = PodClaims(taken=_names(pod))
    findings += claims.add(read)
    if worst(tuple(findings)) is Outcome.REFUSED:
        return ConvertedPod(read=tuple(read), findings=tuple(findings))
    findings += _interfaces_twice(read, claims)
    if worst(tuple(findings)) is Outcome.REFUSED:
        return ConvertedPod(read=tuple(read), findings=tuple(findings))
    findings += _several(pod, read)
    return ConvertedPod(
        claims=tuple(claims.made),
        uses=claims.uses,
        resources={each.container.steps: each.container.resources for each in read},
        annotations=frozenset(_leaving(facts, dialects)).union(*(each.leaves for each in pods.values())),
        drops_scheduler=_leaving_scheduler(facts) is not None,
        read=tuple(read),
        findings=tuple(findings),
    )


def _read_pod(asking: Sequence[AskingContainer], facts: PodFacts) -> tuple[Collection[Dialect], dict[str, PodReading]]:
    dialects = {part.dialect.name: part.dialect for container in asking for part in container.parts}
    return dialects.values(), {name: dialect.read_pod(facts) for name, dialect in dialects.items()}


def _pod_findings(facts: PodFacts, dialects: Collection[Dialect], pods: Mapping[str, PodReading]) -> Iterator[Finding]:
    for dialect in dialects:
        yield from pods[dialect.name].findings
        said: set[tuple[Where, str]] = set()
        for note in dialect.notes:
            for name in facts.named(note.where, note.name):
                if note.text and (note.where, name) not in said:
                    said.add((note.where, name))
                    yield facts.finding(dialect.name, note.where, name, note.outcome, note.text)


def _leaving_scheduler(facts: PodFacts) -> Dialect | None:
    """Return whose scheduler the pod names that allocates no claims, whoever gave the devices."""
    return next((each for each in dialects_for(facts.settings) if facts.scheduler in each.schedulers), None)


def _scheduler(pod: PodSpec, facts: PodFacts, *, said: set[str]) -> Iterator[Finding]:
    path = field_path((*pod.steps, "schedulerName"))
    if facts.scheduler in ("", _KUBE_SCHEDULER) or path in said:
        return
    dialect = _leaving_scheduler(facts)
    if dialect is not None:
        text = f"removed: {dialect.scheduler_text}"
    else:
        text = "stays: claims are allocated only if this scheduler does it, as kube-scheduler does; else leave it out"
    yield Finding(
        dialect="" if dialect is None else dialect.name,
        field=path,
        value=facts.scheduler,
        outcome=Outcome.NOTED,
        text=text,
    )


def _placed(pod: PodSpec) -> Iterator[Finding]:
    node = pod.spec.get("nodeName")
    if isinstance(node, str) and node:
        yield Finding(
            dialect="",
            field=field_path((*pod.steps, "nodeName")),
            value=node,
            outcome=Outcome.REFUSED,
            text=_PLACED,
        )


def _interfaces_twice(read: Sequence[ReadContainer], claims: PodClaims) -> Iterator[Finding]:
    """Refuse claims that would move NICs into the pod under one name: its containers share their interfaces."""
    first: dict[str, str] = {}
    for each in read:
        names = {nic.interface for nic in each.request.nics if nic.interface}
        for claim, _ in claims.uses[each.container.steps]:
            twice = sorted(name for name in names if first.setdefault(name, claim) != claim)
            if twice:
                part = next(part for part in each.container.parts if any(map(_is_of_nics, part.amounts)))
                text = (
                    f"another container asks for a NIC of the same network (interface {', '.join(twice)}), and the"
                    " containers of a pod share their interfaces: ask for it in one container"
                )
                yield each.container.finding(part.held[0], part.dialect.name, Outcome.REFUSED, text)


def _is_of_nics(amount: Amount) -> bool:
    return amount.resource.meaning is Meaning.NICS


def _several(pod: PodSpec, read: Sequence[ReadContainer]) -> Iterator[Finding]:
    main = (steps for steps, container in containers(pod) if not is_init(steps, container))
    if sum(1 for _ in islice(main, 2)) == 1:
        return
    said: set[str] = set()
    for each in read:
        for part in each.container.parts:
            name, text = part.dialect.name, part.dialect.several_text
            if text and each.request.gpus and name not in said:
                said.add(name)
                yield each.container.finding(part.held[0], name, Outcome.NOTED, text)


def _leaving(facts: PodFacts, dialects: Collection[Dialect]) -> Iterator[str]:
    for dialect in dialects:
        for note in dialect.notes:
            if note.leaves:
                yield from facts.named(note.where, note.name)


def _names(pod: PodSpec) -> set[str]:
    listed = pod.spec.get("resourceClaims")
    entries = listed if isinstance(listed, list) else ()
    return {name for entry in entries if isinstance(entry, Mapping) and isinstance(name := entry.get("name"), str)}
