"""What a dialect is: a table of the names that one system's users write, with their source, and how they are read.

A dialect's own names decide that it reads a container. Names that it shares with others (``nvidia.com/gpu``) it reads
where one of its own is there too, or where the pod's scheduler is its own. The first dialect of the list
(:mod:`driver.convert.dialects`) that wants a name gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from driver.api.pod_templates import PodSpec, Steps, containers, field_path, resources_of
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest
from driver.convert.settings import Settings

__all__ = ["Amount", "Asked", "Dialect", "Meaning", "PodFacts", "PodNote", "PodReading", "Reading", "Resource", "Where"]


class Meaning(StrEnum):
    """What an amount of a resource is an amount of."""

    GPUS = "whole GPUs"
    GPU_CARDS = "GPUs over which the other amounts are spread"
    CORE = "percent of compute"
    MEMORY = "GPU memory"
    MEMORY_PERCENT = "percent of GPU memory"
    BOTH_PERCENT = "percent of compute and of memory"
    MIG = "MIG partitions"
    NICS = "NICs"
    FPGAS = "FPGAs"
    OTHER = "something that no claim counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource's name and what an amount of it means.

    Attributes:
        name: The name; with ``*`` at the end every name that begins so.
        meaning: What it counts.
        unit: What one of it is, such as the bytes of a MiB for an amount of memory.
        shared: Whether other dialects use the name as well.
        vendor: Of the GPUs, as Rootport's attribute ``vendor`` has it; empty for any.
    """

    name: str
    meaning: Meaning
    unit: int = 1
    shared: bool = False
    vendor: str = ""


class Where(StrEnum):
    """Where a pod's note is written."""

    ANNOTATION = "annotations"
    LABEL = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNote:
    """An annotation or label of a pod that a dialect knows.

    Attributes:
        name: Its name; with ``*`` at the end every name that begins so.
        where: Whether it is an annotation or a label.
        text: The finding's text for a field that has no equal: what to do instead. Empty where ``Dialect.read_pod``
            yields the findings about it.
        leaves: Whether an annotation leaves the pod with what is converted. Labels stay, since selectors may name them.
        outcome: The finding's outcome.
    """

    name: str
    where: Where = Where.ANNOTATION
    text: str = ""
    leaves: bool = False
    outcome: Outcome = Outcome.NOTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much a container asks for of one resource.

    Attributes:
        resource: Its line of the table.
        name: Its full name.
        value: How much, a whole number above 0, in the resource's own unit (not multiplied by ``resource.unit``).
        text: What was written.
        field: The path of the field.
    """

    resource: Resource
    name: str
    value: int
    text: str
    field: str

    @property
    def rest(self) -> str:
        """What follows the table's name where that ends in ``*``: the MIG profile of ``nvidia.com/mig-*``."""
        return self.name[len(self.resource.name) - 1 :] if self.resource.name.endswith("*") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What a dialect may know of the pod.

    Attributes:
        annotations: The pod's own, all of them texts.
        labels: Likewise.
        namespace: Of the object; empty where it names none.
        scheduler: ``schedulerName``; empty for Kubernetes' own.
        resources: The names of all resources that its containers ask for.
        steps: Where its metadata is in the object.
        settings: How to convert.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    scheduler: str = ""
    resources: frozenset[str] = frozenset()
    steps: Steps = ("metadata",)
    settings: Settings

    @classmethod
    def of(cls, pod: PodSpec, settings: Settings, namespace: str = "") -> PodFacts:
        """Return the facts of a pod as it was written; what is no text is left out."""
        scheduler = pod.spec.get("schedulerName")
        return cls(
            annotations=_texts(pod.metadata.get("annotations")),
            labels=_texts(pod.metadata.get("labels")),
            namespace=namespace,
            scheduler=scheduler if isinstance(scheduler, str) else "",
            resources=frozenset(name for steps, item in containers(pod) for name in resources_of(item, steps)),
            steps=pod.metadata_steps or (),
            settings=settings,
        )

    def named(self, where: Where, pattern: str) -> Iterator[str]:
        """Yield the names of the annotations or labels that the pod has; a pattern may end in ``*``."""
        held = self.annotations if where is Where.ANNOTATION else self.labels
        if pattern.endswith("*"):
            yield from (name for name in held if name.startswith(pattern[:-1]))
        elif pattern in held:
            yield pattern

    def finding(self, dialect: str, where: Where, name: str, outcome: Outcome, text: str) -> Finding:
        """Return the finding about an annotation or label that the pod has."""
        held = self.annotations if where is Where.ANNOTATION else self.labels
        path = field_path((*self.steps, where.value, name))
        return Finding(dialect=dialect, field=path, value=held[name], outcome=outcome, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading:
    """What a dialect read of the pod, once for all its containers.

    Attributes:
        hints: Whatever ``Dialect.read`` wants to know of it for each container.
        findings: About annotations and labels that the table does not have a text for.
        spans: Whether GPUs and NICs of different containers are allocated together, so that the pod has one claim.
        leaves: Annotations that leave the pod beside those that always do (:attr:`PodNote.leaves`).
    """

    hints: object = None
    findings: tuple[Finding, ...] = ()
    spans: bool = False
    leaves: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a container asks for in a dialect's words.

    Attributes:
        dialect: The dialect's name.
        container: The container's name.
        amounts: Of each resource that it names; amounts of 0 are left out.
        pod: The pod.
        hints: What ``Dialect.read_pod`` returned.
        zeros: The resources of which it asks for 0.
    """

    dialect: str
    container: str
    amounts: tuple[Amount, ...]
    pod: PodFacts
    hints: object = None
    zeros: frozenset[str] = frozenset()

    def one(self, meaning: Meaning) -> Amount | None:
        """Return the first amount of that meaning."""
        return next((amount for amount in self.amounts if amount.resource.meaning is meaning), None)

    def all(self, meaning: Meaning) -> tuple[Amount, ...]:
        """Return the amounts of that meaning."""
        return tuple(amount for amount in self.amounts if amount.resource.meaning is meaning)

    def twice(self) -> tuple[Finding, ...]:
        """Refuse the amounts that mean the same as an earlier one does, under another name."""
        first: dict[Meaning, Amount] = {}
        return tuple(
            self.refused(amount, f"asks for the same as {held.name}: write one of them")
            for amount in self.amounts
            if (held := first.setdefault(amount.resource.meaning, amount)) is not amount
            and amount.resource.meaning is not Meaning.OTHER
        )

    def noted(self, amount: Amount, text: str) -> Finding:
        """Return the finding that an amount was converted, with a note to read."""
        return self._finding(amount, Outcome.NOTED, text)

    def refused(self, amount: Amount, text: str) -> Finding:
        """Return the finding that an amount cannot be converted: why, and what to write."""
        return self._finding(amount, Outcome.REFUSED, text)

    def _finding(self, amount: Amount, outcome: Outcome, text: str) -> Finding:
        return Finding(
            dialect=self.dialect,
            field=amount.field,
            value=amount.text,
            outcome=outcome,
            text=text,
            container=self.container,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a dialect read of a container.

    Attributes:
        request: The devices that it asks for.
        findings: Notes and refusals; an amount without one counts as CONVERTED.
    """

    request: DeviceRequest = field(default_factory=DeviceRequest)
    findings: tuple[Finding, ...] = ()


def _texts(held: object) -> dict[str, str]:
    pairs = held.items() if isinstance(held, Mapping) else ()
    return {name: text for name, text in pairs if isinstance(name, str) and isinstance(text, str)}


def _nothing(_: PodFacts) -> PodReading:
    return PodReading()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One system's way to ask for devices.

    Attributes:
        name: As its users call it.
        source: Where its rules are written: files of its source code, pages of its documentation.
        resources: The resource names that it reads.
        read: Reads what one container asks for.
        read_pod: Reads the annotations and labels that bear on all containers.
        notes: The annotations and labels that it knows.
        schedulers: The names of its schedulers: they allocate no claims, so ``schedulerName`` goes.
        scheduler_text: What that scheduler gave beside devices, and what to do instead.
        several_text: What is different afterwards for a pod of several containers; empty where nothing is.
    """

    name: str
    source: str
    resources: Sequence[Resource]
    read: Callable[[Asked], Reading]
    read_pod: Callable[[PodFacts], PodReading] = _nothing
    notes: Sequence[PodNote] = ()
    schedulers: frozenset[str] = frozenset()
    scheduler_text: str = ""
    several_text: str = ""
