"""Converts one pod: a claim for each container that asks for devices, and what init containers may use of them.

Device plugins give devices to a container, so each gets a claim of its own: two shares in one claim would share one
environment. Only GPUs and NICs of different containers that are allocated together are in one claim of the pod. The
kubelet lets containers use again what init containers had (k8s.io/kubernetes, pkg/kubelet/cm/devicemanager), so an init
container that asks for no more than a container uses that one's claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from driver.api.pod_templates import PodSpec, Steps, containers, field_path
from driver.convert.claims import ClaimSpec, claim_of
from driver.convert.containers import AskingContainer, ReadContainer, asking_containers, is_init, read_container
from driver.convert.dialect import Dialect, PodFacts, PodReading, Where
from driver.convert.dialects import dialects_for
from driver.convert.findings import Finding, Outcome, worst
from driver.convert.node_labels import node_label_findings
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, NicRequest
from driver.convert.settings import Settings
from driver.errors import InputError

__all__ = ["ConvertedPod", "PodClaim", "containers_read", "converted_pod"]

_MOST_CONTAINERS: Final = 256
"""The most containers of a pod that are converted."""
_PLACED: Final = (
    "kube-scheduler allocates claims, and does not see a pod that names its node: use nodeSelector in its place"
)
_KUBE_SCHEDULER: Final = "default-scheduler"
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim of the pod.

    Attributes:
        name: Its name in the pod's ``resourceClaims``.
        claim: What it asks for.
    """

    name: str
    claim: ClaimSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedPod:
    """A pod's new claims, and what leaves its spec and its metadata.

    Attributes:
        claims: The claims.
        uses: What each container names, by its field: claims with a request of theirs, or an empty text for all.
        resources: The resources that leave each container, by its field.
        annotations: The annotations that leave the pod.
        drops_scheduler: Whether ``schedulerName`` goes.
        findings: What was read.
    """

    claims: tuple[PodClaim, ...] = ()
    uses: Mapping[Steps, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    resources: Mapping[Steps, frozenset[str]] = field(default_factory=dict)
    annotations: frozenset[str] = frozenset()
    drops_scheduler: bool = False
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
        return ConvertedPod(findings=tuple(findings))
    claims = _Claims(taken=_names(pod))
    findings += claims.add(read)
    findings += _several(pod, read)
    return ConvertedPod(
        claims=tuple(claims.made),
        uses=claims.uses,
        resources={each.container.steps: each.container.resources for each in read},
        annotations=frozenset(_leaving(facts, dialects)).union(*(each.leaves for each in pods.values())),
        drops_scheduler=_leaving_scheduler(facts) is not None,
        findings=tuple(findings),
    )


def containers_read(pod: PodSpec, settings: Settings) -> Iterator[ReadContainer]:
    """Yield what each container of a pod asks for that asks for devices in any dialect, for those who only tell.

    Raises:
        SpentError: The budget in force (:mod:`driver.budget`) is spent.
    """
    facts = PodFacts.of(pod, settings)
    asking = list(asking_containers(pod, facts))
    _, pods = _read_pod(asking, facts)
    for container in asking:
        yield read_container(container, facts, pods)


def _read_pod(asking: Sequence[AskingContainer], facts: PodFacts) -> tuple[Collection[Dialect], dict[str, PodReading]]:
    dialects = {part.dialect.name: part.dialect for container in asking for part in container.parts}
    return dialects.values(), {name: dialect.read_pod(facts) for name, dialect in dialects.items()}


@dataclass(slots=True, kw_only=True)
class _Claims:
    """The claims of a pod, as they are made.

    Attributes:
        taken: The names of claims that the pod has.
        made: The new ones.
        uses: As in :class:`ConvertedPod`.
        requests: What each new claim was made for.
        ended: The claims that nobody uses while init containers run: those of sidecars are in use.
    """

    taken: set[str]
    made: list[PodClaim] = field(default_factory=list)
    uses: dict[Steps, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    requests: list[DeviceRequest] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    def add(self, read: Sequence[ReadContainer]) -> Iterator[Finding]:
        """Make the claims of all containers; yield what is to be said of them."""
        main = [each for each in read if not each.container.is_init]
        together = _together(main)
        if together is not None and self._add_for_all(together, main):
            yield from self._who_sees_all(main)
        else:
            for each in main:
                self._add_for_one(each)
        self.ended = {claim.name for claim in self.made} - {
            name for each in main if _is_sidecar(each) for name, _ in self.uses[each.container.steps]
        }
        for each in read:
            if each.container.is_init:
                yield self._add_for_init(each)

    def _add_for_one(self, each: ReadContainer) -> None:
        if each.claim is not None:
            self.uses[each.container.steps] = ((self._make(each.claim, each.request), ""),)

    def _add_for_all(self, together: DeviceRequest, main: Sequence[ReadContainer]) -> bool:
        """Make one claim for GPUs and NICs of different containers; false if its requests cannot be divided so."""
        try:
            claim = claim_of(together)
        except InputError:
            return False
        gpus, nics, fpgas = iter(claim.gpus), list(claim.nics), iter(claim.fpgas)
        total = sum(gpu.count for gpu in together.gpus)
        each_has = total // len(claim.gpus)
        if any(gpu.count % each_has for each in main for gpu in each.request.gpus):
            return False
        name = self._make(claim, together)
        for each in main:
            requests = [next(gpus) for gpu in each.request.gpus for _ in range(gpu.count // each_has)]
            requests += nics if each.request.nics else []
            requests += [next(fpgas) for _ in each.request.fpgas]
            # A container has one entry for each claim: the list's key is the claim's name (k8s.io/api, core/v1).
            self.uses[each.container.steps] = ((name, requests[0] if len(requests) == 1 else ""),)
        return True

    def _who_sees_all(self, main: Sequence[ReadContainer]) -> Iterator[Finding]:
        for each in main:
            ((claim, request),) = self.uses[each.container.steps]
            if not request:
                part = each.container.parts[0]
                text = (
                    f"claim {claim} is the pod's, for what is allocated together; a container can name one request of a"
                    " claim or all, so this one sees all of its devices"
                )
                yield each.container.finding(part.held[0], part.dialect.name, Outcome.NOTED, text)

    def _add_for_init(self, each: ReadContainer) -> Finding:
        steps = each.container.steps
        part = each.container.parts[0]
        for claim, request in zip(self.made, self.requests, strict=True):
            if claim.name in self.ended and _covers(request, each.request):
                self.uses[steps] = ((claim.name, ""),)
                text = f"an init container: uses claim {claim.name}, as it would use a container's devices before it"
                return each.container.finding(part.held[0], part.dialect.name, Outcome.CONVERTED, text)
        self._add_for_one(each)
        name = self.uses[steps][0][0]
        self.ended.add(name)
        text = (
            f"an init container that asks for more than any container: claim {name} is its own, and keeps its devices"
            " as long as the pod lives; to free them, do that work in another pod"
        )
        return each.container.finding(part.held[0], part.dialect.name, Outcome.NOTED, text)

    def _make(self, claim: ClaimSpec, request: DeviceRequest) -> str:
        base = "rdma" if request.nics else "fpga"
        if request.gpus:
            base = "mig" if all(gpu.profile for gpu in request.gpus) else "gpu"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}-{number}", number + 1
        self.taken.add(name)
        self.made.append(PodClaim(name=name, claim=claim))
        self.requests.append(request)
        return name


def _is_sidecar(each: ReadContainer) -> bool:
    return each.container.steps[-2] == "initContainers" and not each.container.is_init


def _together(main: Sequence[ReadContainer]) -> DeviceRequest | None:
    """Return what is allocated together though it is for different containers; None if there is no such thing."""
    if len(main) < 2 or not all(each.spans for each in main):
        return None
    requests = [each.request for each in main]
    if any(request.gpus and request.nics for request in requests):
        return None
    gpus = [gpu for request in requests for gpu in request.gpus]
    nics = [nic for request in requests for nic in request.nics]
    if not gpus or len(nics) != 1 or len({replace(gpu, count=1) for gpu in gpus}) != 1:
        return None
    return DeviceRequest(
        gpus=(replace(gpus[0], count=sum(gpu.count for gpu in gpus)),),
        nics=tuple(nics),
        fpgas=tuple(fpga for request in requests for fpga in request.fpgas),
        near=requests[0].near,
        nic_each=any(request.nic_each for request in requests),
    )


def _covers(held: DeviceRequest, asked: DeviceRequest) -> bool:
    """Whether whoever has the one needs nothing more for the other."""
    return (
        all(any(_covers_gpu(own, gpu) for own in held.gpus) for gpu in asked.gpus)
        and all(any(_covers_alike(own, nic) for own in held.nics) for nic in asked.nics)
        and all(any(_covers_alike(own, fpga) for own in held.fpgas) for fpga in asked.fpgas)
    )


def _covers_gpu(own: GpuRequest, gpu: GpuRequest) -> bool:
    if own.profile != gpu.profile or own.count < gpu.count or not set(gpu.together) <= set(own.together):
        return False
    if gpu.vendor not in ("", own.vendor) or not set(gpu.wanted) <= set(own.wanted):
        return False
    if not own.is_share:
        return True
    # Shares that are isolated in another way, or whose memory is written in another unit, cannot be compared.
    comparable = gpu.is_share and own.strategy == gpu.strategy and (own.memory is None) == (gpu.memory is None)
    amounts = ((own.core, gpu.core), (own.memory, gpu.memory), (own.memory_percent, gpu.memory_percent))
    return comparable and all((has or 0) >= (asks or 0) for has, asks in amounts)


def _covers_alike(own: NicRequest | FpgaRequest, asked: NicRequest | FpgaRequest) -> bool:
    if own.count == 0:
        return replace(asked, count=0) == own
    return asked.count > 0 and own.count >= asked.count and replace(asked, count=own.count) == own


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
        text = f"goes: {dialect.scheduler_text}"
    else:
        text = "stays: claims are allocated only if this scheduler does it, as kube-scheduler does; else leave it out"
    yield Finding(
        dialect="" if dialect is None else dialect.name,
        field=path,
        value=facts.scheduler[:_SHOWN],
        outcome=Outcome.NOTED,
        text=text,
    )


def _placed(pod: PodSpec) -> Iterator[Finding]:
    node = pod.spec.get("nodeName")
    if isinstance(node, str) and node:
        yield Finding(
            dialect="",
            field=field_path((*pod.steps, "nodeName")),
            value=node[:_SHOWN],
            outcome=Outcome.REFUSED,
            text=_PLACED,
        )


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
