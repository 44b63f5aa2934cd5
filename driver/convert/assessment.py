"""Sums up what of many objects converts: a migration assessment of files or of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from driver.api.pod_templates import PodSpec, containers, pod_specs, resources_of
from driver.convert.findings import Conversion, Finding, Outcome, worst
from driver.convert.other_drivers import is_claim
from driver.objects.extended_resources import CLASS_PREFIX, MAX_POD_RESOURCES, is_extended

__all__ = ["Assessed", "Assessment", "Reason"]

_MOST: Final = 100_000
"""The most workloads whose findings are kept; more are counted."""
_LONGEST_NAME: Final = 253 + 1 + 63
"""A resource's name is a DNS subdomain, a slash and a label's name (k8s.io/apimachinery, IsQualifiedName)."""
_NOTHING: Final = (0, "0")
_KUBE_SCHEDULER: Final = (None, "", "default-scheduler")
_ENDED_PHASES: Final = ("Succeeded", "Failed")
_ENDED_CONDITIONS: Final = ("Complete", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """An object that asks for devices in another system's way.

    Attributes:
        kind: Its kind; for pods that a controller makes which was not itself assessed, the controller's.
        namespace: Its namespace; empty where it names none.
        name: Its name, likewise.
        where: Where it was read, such as ``deploy.yaml:12``; empty for a cluster's.
        is_workload: Whether it has pods; a ResourceClaim has none.
        findings: What was read of it.
    """

    kind: str
    namespace: str
    name: str
    where: str
    is_workload: bool
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of the findings'."""
        return worst(self.findings)

    @property
    def dialects(self) -> tuple[str, ...]:
        """Whose words it uses."""
        return tuple(dict.fromkeys(finding.dialect for finding in self.findings if finding.dialect))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A note or a refusal, with all objects that have it.

    Attributes:
        dialect: Whose field it is about; empty where nobody's.
        text: The note, or why they are refused.
        findings: The objects, each with its first such finding.
    """

    dialect: str
    text: str
    findings: tuple[tuple[Assessed, Finding], ...]


@dataclass(frozen=True, slots=True)
class _Owner:
    """The controller of an object (``metadata.ownerReferences``)."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Other:
    """A workload that asks for nothing that is converted.

    Attributes:
        has_claims: Whether it names claims, or DeviceClasses as extended resources.
        resources: The other extended resources that it asks for.
    """

    has_claims: bool = False
    resources: frozenset[str] = frozenset()

    def with_more(self, more: _Other) -> _Other:
        """Return it with what another pod of the same controller asks for."""
        return _Other(self.has_claims or more.has_claims, self.resources | more.resources)


@dataclass(slots=True)
class Assessment:
    """What of the objects that were added converts.

    An object counts for its controller, such as a pod for its PyTorchJob; if the controller was added too, it alone
    counts. That is quicker for controllers that are added before what they own.

    Attributes:
        served: The extended resources that DeviceClasses of the cluster serve. A workload that asks kube-scheduler for
            these alone counts as one with claims.
        left_out: How many objects that ask for devices were only counted, because there are too many.
    """

    served: frozenset[str] = frozenset()
    left_out: int = 0
    _known: set[str] = field(default_factory=set)  # UIDs
    _asking: dict[object, Assessed] = field(default_factory=dict)
    _others: dict[object, _Other] = field(default_factory=dict)

    def add(self, data: Mapping[str, Any], convert: Callable[[Mapping[str, Any]], Conversion], where: str = "") -> None:
        """Convert an object and take note of the result.

        Args:
            data: The object.
            convert: Converts it.
            where: Where it was read.
        """
        metadata, owner = _mapping(data.get("metadata")), _controller(data)
        if uid := _text(metadata.get("uid")):
            self._known.add(uid)
        if _has_ended(data) or (owner is not None and owner.uid in self._known):
            return
        pods = list(pod_specs(data))
        if self.served and _are_served(pods, self.served):
            conversion = Conversion(object=data)
        else:
            conversion = convert(_as_created(data))
        namespace, name = _text(metadata.get("namespace")), _text(metadata.get("name") or metadata.get("generateName"))
        kind = _text(data.get("kind"))
        if owner is not None:
            kind, name = owner.kind, owner.name
        # The same name may be in several files: kustomizations have overlays.
        key = owner if owner is not None else (kind, namespace, name, where)
        if conversion.outcome is Outcome.UNCHANGED:
            if pods:
                self._others[key] = self._others.get(key, _Other()).with_more(_other(pods, self.served))
            return
        earlier = self._asking.get(key)
        findings = conversion.findings if earlier is None else _merged(earlier.findings, conversion.findings)
        if earlier is None and len(self._asking) >= _MOST:
            self.left_out += 1
            return
        self._asking[key] = Assessed(
            kind=kind,
            namespace=namespace,
            name=name,
            where=where,
            is_workload=not is_claim(data),
            findings=findings,
        )

    @property
    def assessed(self) -> tuple[Assessed, ...]:
        """The objects that ask for devices in another system's way, in the order in which they were added."""
        return tuple(item for key, item in self._asking.items() if not self._is_of_another(key))

    @property
    def with_claims(self) -> int:
        """How many other workloads name claims already."""
        return sum(other.has_claims for other in self._each_other())

    @property
    def with_other_resources(self) -> int:
        """How many other workloads ask for extended resources that are not converted, and name no claim."""
        return sum(bool(other.resources) for other in self._each_other() if not other.has_claims)

    @property
    def other_resources(self) -> dict[str, int]:
        """The resources of :attr:`with_other_resources`, each with the number of workloads; the most frequent first."""
        counts = Counter(
            name for other in self._each_other() if not other.has_claims for name in sorted(other.resources)
        )
        return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))

    @property
    def without_devices(self) -> int:
        """How many other workloads there are, which ask for no device."""
        return sum(not (other.has_claims or other.resources) for other in self._each_other())

    def _each_other(self) -> Iterator[_Other]:
        return (other for key, other in self._others.items() if self._is_other(key))

    def _is_other(self, key: object) -> bool:
        return key not in self._asking and not self._is_of_another(key)

    def _is_of_another(self, key: object) -> bool:
        return isinstance(key, _Owner) and key.uid in self._known

    def reasons(self, outcome: Outcome) -> list[Reason]:
        """Return the notes on objects that convert, or why others do not: what holds for the most objects first."""
        found: dict[tuple[str, str], dict[int, tuple[Assessed, Finding]]] = {}
        for item in self.assessed:
            for finding in item.findings:
                if finding.outcome is item.outcome is outcome:
                    found.setdefault((finding.dialect, finding.text), {}).setdefault(id(item), (item, finding))
        reasons = [
            Reason(dialect=dialect, text=text, findings=tuple(members.values()))
            for (dialect, text), members in found.items()
        ]
        return sorted(reasons, key=lambda reason: -len(reason.findings))


def _other(pods: Sequence[PodSpec], served: frozenset[str]) -> _Other:
    """Return what pods ask for that are not converted."""
    asked = _asked(pods)
    of_classes = {name for name in asked if name.startswith(CLASS_PREFIX) or name in served}
    has_claims = bool(of_classes) or any(pod.spec.get("resourceClaims") for pod in pods)
    return _Other(has_claims, frozenset(islice(sorted(asked - of_classes), MAX_POD_RESOURCES)))


def _are_served(pods: Sequence[PodSpec], served: frozenset[str]) -> bool:
    """Whether kube-scheduler makes the claims of all that they ask for."""
    asked = _asked(pods)
    return bool(asked) and asked <= served and all(pod.spec.get("schedulerName") in _KUBE_SCHEDULER for pod in pods)


def _asked(pods: Sequence[PodSpec]) -> set[str]:
    return {
        name
        for pod in pods
        for steps, container in containers(pod)
        for name, (amount, _) in resources_of(container, steps).items()
        if is_extended(name) and len(name) <= _LONGEST_NAME and amount not in _NOTHING
    }


def _controller(data: Mapping[str, Any]) -> _Owner | None:
    """Return what made the object; None for a mirror pod, which only its node's files describe."""
    references = _mapping(data.get("metadata")).get("ownerReferences")
    for entry in references if isinstance(references, list) else ():
        reference = _mapping(entry)
        if reference.get("controller") is True and reference.get("kind") != "Node":
            owner = _Owner(*(_text(reference.get(key)) for key in ("kind", "name", "uid")))
            return owner if owner.uid else None
    return None


def _as_created(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod that runs without its node, which most likely a scheduler has chosen."""
    spec, status = _mapping(data.get("spec")), _mapping(data.get("status"))
    if data.get("kind") != "Pod" or "phase" not in status or "nodeName" not in spec:
        return data
    return {**data, "spec": {key: value for key, value in spec.items() if key != "nodeName"}}


def _has_ended(data: Mapping[str, Any]) -> bool:
    """Whether it is a pod or Job that has run: there is nothing of it to move."""
    status = _mapping(data.get("status"))
    if data.get("kind") == "Pod":
        return status.get("phase") in _ENDED_PHASES
    conditions = status.get("conditions") if data.get("kind") == "Job" else None
    return any(
        _mapping(item).get("type") in _ENDED_CONDITIONS and _mapping(item).get("status") == "True"
        for item in (conditions if isinstance(conditions, list) else ())
    )


def _merged(earlier: Iterable[Finding], more: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of several pods of one controller, each once wherever it stands in a pod."""
    found = {(item.dialect, item.field, item.value, item.outcome, item.text): item for item in (*earlier, *more)}
    return tuple(found.values())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
