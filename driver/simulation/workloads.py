"""Turns the objects of a user's files into the pods that would run at one time, and their claims.

It does as Kubernetes' controllers do: a pod gets a claim of its own of each ResourceClaimTemplate that it names, and
shares a ResourceClaim that it names. A claim or template that no pod names is allocated once all the same, for a pod
that is assumed to use it: so a file with nothing but claims can be tried.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from driver.api.resource_v1 import ResourceClaim
from driver.explain.known.cluster import PodClaim, PodState
from driver.plan.environment import POD_CLAIM_ANNOTATION

__all__ = [
    "UID_NAMESPACE",
    "InputClaim",
    "SimulatedPod",
    "SimulationInput",
    "Unclaimed",
    "Workload",
    "simulation_input",
]

# Objects in files have no UID yet. A name-based one (RFC 9562, version 5) keeps CDI device names the same in every run.
UID_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "simulate.rootport.dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputClaim:
    """A claim or claim template of the files.

    Attributes:
        claim: The claim, valid, with the API's defaults, a namespace and a name; of a template the claim to make of it.
        from_template: Whether it is a ResourceClaimTemplate, whose name the claim has.
        place: Its index among the objects of the files.
    """

    claim: ResourceClaim
    from_template: bool = False
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclaimed:
    """What pods ask of another system, such as ``kubernetes.io/gpu`` of Koordinator, and not by a claim.

    Attributes:
        amounts: What was written, by the resource's name.
        system: The system, with its article.
        converts: Whether it can be written as claims.
    """

    amounts: Mapping[str, str]
    system: str
    converts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods that are alike: those of a Deployment, of a Job, or one alone.

    Attributes:
        pod: What they have in common; it has a UID if it is a pod of the files itself.
        pods: Their names, as many as run at one time.
        containers: ``containers`` and ``initContainers`` of their spec, as far as explain and lint read them.
        place: Its index among the objects of the files.
        unclaimed: What they ask of another system; None where nothing.
    """

    pod: PodState
    pods: tuple[str, ...] = ()
    containers: Mapping[str, Any] = field(default_factory=dict)
    place: int = 0
    unclaimed: Unclaimed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPod:
    """One pod.

    Attributes:
        state: The pod as explain knows it. Each of its claims has the name of a ResourceClaim, unless the template that
            it is made of is missing.
        containers: Its containers, as far as explain and lint read them.
        is_assumed: Whether it is in no file: it stands for a pod that will use the claim.
        unclaimed: As of its :class:`Workload`.
    """

    state: PodState
    containers: Mapping[str, Any] = field(default_factory=dict)
    is_assumed: bool = False
    unclaimed: Unclaimed | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.state.key

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """``namespace/name`` of each claim that it names, missing ones included."""
        return tuple(f"{self.state.namespace}/{entry.claim}" for entry in self.state.claims if entry.claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationInput:
    """The pods and claims to schedule.

    Attributes:
        pods: The pods in the order of the files.
        claims: The claims by ``namespace/name``, in the order in which the pods name them; each has a UID.
        templates: The templates of the files, as claims, by ``namespace/name``.
    """

    pods: tuple[SimulatedPod, ...]
    claims: Mapping[str, ResourceClaim]
    templates: Mapping[str, ResourceClaim]


def simulation_input(claims: Sequence[InputClaim], workloads: Sequence[Workload]) -> SimulationInput:
    """Return the pods and claims that controllers make of these objects.

    A template's claim has the template's name if a single pod names it, else the pod's and the entry's, as
    kube-controller-manager begins it. Names that are taken get a number.
    """
    return _Controllers(claims, workloads).run()


class _Controllers:
    """Makes pods and claims, and gives them names."""

    def __init__(self, claims: Sequence[InputClaim], workloads: Sequence[Workload]) -> None:
        self._templates = {_key(item.claim): item for item in claims if item.from_template}
        self._claims = {_key(item.claim): item for item in claims if not item.from_template}
        self._workloads = workloads
        self._made: dict[str, ResourceClaim] = {}
        # Names that are taken, with the number to go on with.
        self._names = dict.fromkeys(self._claims, 1)
        self._pod_names: dict[str, int] = {}
        self._users: Counter[str] = Counter()
        for workload in workloads:
            for key, times in self._named_templates(workload).items():
                self._users[key] += times * len(workload.pods)

    def run(self) -> SimulationInput:
        named = {
            f"{workload.pod.namespace}/{entry.claim}"
            for workload in self._workloads
            if workload.pods
            for entry in workload.pod.claims
        }
        mentioned = {key for workload in self._workloads for key in self._named_templates(workload)}
        unused = [item for key, item in self._claims.items() if key not in named]
        unused += [item for key, item in self._templates.items() if key not in mentioned]
        items: list[Workload | InputClaim] = sorted([*self._workloads, *unused], key=lambda item: item.place)
        # Names that the files give come first: only names that are made up give way.
        pods: dict[int, tuple[SimulatedPod, ...]] = {}
        for item in sorted(items, key=_name_freedom):
            pods[id(item)] = tuple(self._pods_of(item)) if isinstance(item, Workload) else (self._assumed(item),)
        in_order = tuple(pod for item in items for pod in pods[id(item)])
        claims = {key: self._made[key] for pod in in_order for key in pod.claim_keys if key in self._made}
        return SimulationInput(
            pods=in_order,
            claims=claims,
            templates={key: item.claim for key, item in self._templates.items()},
        )

    def _named_templates(self, workload: Workload) -> Counter[str]:
        """Return how many claims each pod gets of each template, by the template's key."""
        namespace = workload.pod.namespace
        return Counter(
            key
            for entry in workload.pod.claims
            if entry.template
            and f"{namespace}/{entry.claim}" not in self._claims
            and (key := f"{namespace}/{entry.template}") in self._templates
        )

    def _pods_of(self, workload: Workload) -> Iterator[SimulatedPod]:
        alike = workload.pod
        for wanted in workload.pods:
            name = self._unique(alike.namespace, wanted, self._pod_names)
            entries = tuple([self._entry(alike.namespace, name, entry) for entry in alike.claims])
            state = _pod(
                alike.namespace,
                name,
                entries,
                uid=alike.uid,
                node=alike.node,
                containers=alike.containers,
                node_selector=alike.node_selector,
                affinity=alike.affinity,
                tolerations=alike.tolerations,
                gates=alike.gates,
                needs=alike.needs,
            )
            yield SimulatedPod(state=state, containers=workload.containers, unclaimed=workload.unclaimed)

    def _entry(self, namespace: str, pod: str, entry: PodClaim) -> PodClaim:
        """Return the entry with the name of its claim, which is made if it is to be."""
        if entry.needs_none:
            return entry
        if entry.claim:
            key = f"{namespace}/{entry.claim}"
            if key in self._claims:
                self._made.setdefault(key, _with_uid(self._claims[key].claim))
                return entry
        template = self._templates.get(f"{namespace}/{entry.template}") if entry.template else None
        if template is None:
            return entry
        alone = self._users[_key(template.claim)] == 1
        name = self._unique(namespace, entry.template if alone else f"{pod}-{entry.name}", self._names)
        self._made[f"{namespace}/{name}"] = _annotated(_named(template.claim, name), entry.name)
        return replace(entry, claim=name)

    def _assumed(self, item: InputClaim) -> SimulatedPod:
        namespace, name = item.claim.metadata.namespace, item.claim.metadata.name
        if item.from_template:
            name = self._unique(namespace, name, self._names)
        self._made[f"{namespace}/{name}"] = _named(item.claim, name)
        pod = self._unique(namespace, name, self._pod_names)
        entry = PodClaim(name="claim", claim=name)
        using = {"containers": [{"name": "simulated", "resources": {"claims": [{"name": entry.name}]}}]}
        return SimulatedPod(state=_pod(namespace, pod, (entry,)), containers=using, is_assumed=True)

    def _unique(self, namespace: str, name: str, taken: dict[str, int]) -> str:
        """Return the name, with a number if it is taken; it is taken from now on."""
        key, free = f"{namespace}/{name}", name
        number = taken.get(key, 0)
        while f"{namespace}/{free}" in taken:
            number += 1
            free = f"{name}-{number}"
        taken[key] = max(number, 1)
        taken.setdefault(f"{namespace}/{free}", 1)
        return free


def _name_freedom(item: Workload | InputClaim) -> int:
    """Return 0 if the file names its pod, 1 if a controller names its pods, 2 if the pod is assumed."""
    if isinstance(item, InputClaim):
        return 2
    return 0 if item.pods == (item.pod.name,) else 1


def _pod(namespace: str, name: str, claims: tuple[PodClaim, ...], *, uid: str = "", **more: Any) -> PodState:
    uid = uid or str(uuid.uuid5(UID_NAMESPACE, f"pod {namespace}/{name}"))
    return PodState(namespace=namespace, name=name, uid=uid, claims=claims, **more)


def _key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _named(claim: ResourceClaim, name: str) -> ResourceClaim:
    """Return the claim under that name; it keeps its UID only if it keeps its name."""
    if claim.metadata.name == name:
        return _with_uid(claim)
    metadata = claim.metadata.model_copy(update={"name": name, "uid": ""})
    return _with_uid(claim.model_copy(update={"metadata": metadata}))


def _annotated(claim: ResourceClaim, entry: str) -> ResourceClaim:
    """Return the claim with its pod's name for it, which kube-controller-manager notes on claims of templates."""
    annotations = {**claim.metadata.annotations, POD_CLAIM_ANNOTATION: entry}
    metadata = claim.metadata.model_copy(update={"annotations": annotations})
    return claim.model_copy(update={"metadata": metadata})


def _with_uid(claim: ResourceClaim) -> ResourceClaim:
    if claim.metadata.uid:
        return claim
    metadata = claim.metadata.model_copy(update={"uid": str(uuid.uuid5(UID_NAMESPACE, _key(claim)))})
    return claim.model_copy(update={"metadata": metadata})
