"""Checks how pods and pod templates use claims, and what they ask of device plugins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from driver.api.pod_templates import PodSpec, Steps, containers, field_path, no_such_claim, resources_of
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.api.validation.errors import shown
from driver.budget import check
from driver.convert import DEFAULT, Outcome, Settings, claim_lines, converted_pod
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import NIC_KINDS
from driver.lint.mistakes import unknown_class
from driver.lint.parts import parts_of
from driver.objects.extended_resources import CLASS_PREFIX
from driver.spelling import close_matches
from driver.wording import listed

__all__ = ["KnownClaims", "pod_findings"]

_NEAR: Final = 0.7
_MOST_COMPARED: Final = 100
_MOST_SHOWN: Final = 5
_GUIDE: Final = "docs/user/migrate.md"
_WRITES_IT: Final = f"`rootport convert` writes that claim: {_GUIDE}"
_MOST_NOTES: Final = 2
_LONGEST_NAME: Final = 253
_FIELDS: Final = {"resourceClaimTemplateName": "ResourceClaimTemplate", "resourceClaimName": "ResourceClaim"}


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """The claims and templates of the same files, by kind, namespace and name; and the classes by name.

    Attributes:
        claims: ``("ResourceClaim", "ml", "train")`` and so on.
        classes: The DeviceClasses.
        classes_are_all: Whether the cluster has no others.
        resource_map: How resources of device plugins for NICs are read.
        settings: How requests of other systems are read: resources that a class stands for are Rootport's own.
    """

    claims: Mapping[tuple[str, str, str], ResourceClaim] = field(default_factory=dict)
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    classes_are_all: bool = False
    resource_map: Settings = field(default=DEFAULT, repr=False, compare=False)
    _names: Mapping[tuple[str, str], list[str]] = field(init=False, repr=False, compare=False)
    _namespaces: Mapping[tuple[str, str], list[str]] = field(init=False, repr=False, compare=False)
    settings: Settings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        namespaces: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, namespace, name in sorted(self.claims):
            names[kind, namespace].append(name)
            namespaces[kind, name].append(namespace)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_namespaces", namespaces)
        resources = {item.spec.extended_resource_name for item in self.classes.values()}
        left_alone = self.resource_map.left_alone.union(filter(None, resources))
        object.__setattr__(self, "settings", replace(self.resource_map, left_alone=left_alone))

    def names(self, kind: str, namespace: str) -> Sequence[str]:
        """Return the names of a kind in a namespace."""
        return self._names.get((kind, namespace), ())

    def namespaces(self, kind: str, name: str) -> Sequence[str]:
        """Return the namespaces that have an object of that kind and name."""
        return self._namespaces.get((kind, name), ())


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of a pod's ``resourceClaims``, or of a container's ``resources.claims``.

    Attributes:
        name: Its name.
        fields: All of it.
        steps: Where it stands.
    """

    name: str
    fields: Mapping[str, Any]
    steps: Steps


def pod_findings(pod: PodSpec, namespace: str, known: KnownClaims) -> Iterator[LintFinding]:
    """Find claims that a pod names wrongly or does not use, and devices that it asks device plugins for.

    Args:
        pod: The pod's or template's spec, as somebody wrote it.
        namespace: The object's namespace.
        known: What the same files define: what is not there may be on the cluster.

    Raises:
        SpentError: The budget in force is spent.
    """
    entries: list[_Entry] = []
    yield from _read(pod.spec.get("resourceClaims"), (*pod.steps, "resourceClaims"), entries)
    given: dict[str, _Entry] = {}
    for entry in entries:
        check()
        if given.setdefault(entry.name, entry) is not entry:
            yield _twice(entry, given[entry.name])
    for entry in entries:
        check()
        yield from _source(entry, namespace, known)
    used: set[str] = set()
    for steps, container in containers(pod):
        check()
        resources = container.get("resources")
        claims: list[_Entry] = []
        if isinstance(resources, Mapping):
            yield from _read(resources.get("claims"), (*steps, "resources", "claims"), claims)
        for claim in claims:
            check()
            used.add(claim.name)
            if claim.name not in given:
                yield _unknown_name(claim, given)
    yield from _unused([entry for name, entry in given.items() if name not in used], namespace, known)
    yield from _resources_of_classes(pod, known)
    yield from _device_plugins(pod, namespace, known)


def _read(listed: object, steps: Steps, into: list[_Entry]) -> Iterator[LintFinding]:
    """Add the entries that have a name; the API server refuses others."""
    if listed is None:
        return
    if not isinstance(listed, list):
        yield _invalid(steps, "expected a list of objects")
        return
    for index, entry in enumerate(listed):
        check()
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(name, str) and name:
            into.append(_Entry(name, entry, (*steps, index)))
        else:
            yield _invalid((*steps, index), "expected an object with a name")


def _invalid(steps: Steps, message: str) -> LintFinding:
    return LintFinding(code=LintCode.INVALID_OBJECT, severity=Severity.ERROR, path=field_path(steps), message=message)


def _twice(entry: _Entry, first: _Entry) -> LintFinding:
    return LintFinding(
        code=LintCode.POD_CLAIM_NAME,
        severity=Severity.ERROR,
        path=field_path((*entry.steps, "name")),
        message=f"{shown(entry.name)} is the name of {field_path(first.steps)} as well: the API server refuses the pod",
        hint="give one of the two another name",
    )


def _source(entry: _Entry, namespace: str, known: KnownClaims) -> Iterator[LintFinding]:
    given = [key for key in _FIELDS if entry.fields.get(key)]
    if len(given) != 1:
        yield LintFinding(
            code=LintCode.POD_CLAIM_SOURCE,
            severity=Severity.ERROR,
            path=field_path(entry.steps),
            message=f"claim {shown(entry.name)} names {'both a claim and a template' if given else 'no claim'}",
            hint=f"write one of {' and '.join(_FIELDS)}",
        )
        return
    (key,) = given
    wanted, steps = entry.fields[key], (*entry.steps, key)
    if not isinstance(wanted, str):
        yield _invalid(steps, "expected a string")
    elif (_FIELDS[key], namespace, wanted) not in known.claims:
        yield from _missing(key, wanted, namespace, field_path(steps), known)


def _missing(key: str, wanted: str, namespace: str, path: str, known: KnownClaims) -> Iterator[LintFinding]:
    kind = _FIELDS[key]
    other_key, other_kind = next(item for item in _FIELDS.items() if item[0] != key)
    there = known.names(kind, namespace)
    elsewhere = known.namespaces(kind, wanted)
    if (other_kind, namespace, wanted) in known.claims:
        hint = f"{wanted} is a {other_kind}: write {other_key}"
    elif near := _near(wanted, there):
        hint = f"did you mean {near}?"
    elif elsewhere:
        hint = f"there is one in namespace {elsewhere[0]}; a pod's claims are in its own namespace, {namespace}"
    elif there:
        hint = f"the files have: {_listed(there)}"
    else:
        return  # the files have nothing of the kind: it is meant to be on the cluster
    yield LintFinding(
        code=LintCode.POD_CLAIM_MISSING,
        severity=Severity.WARNING,
        path=path,
        message=f"the given files have no {kind} {namespace}/{wanted}",
        hint=hint,
    )


def _unknown_name(claim: _Entry, given: Collection[str]) -> LintFinding:
    near = _near(claim.name, given)
    hint = f"did you mean {near}?" if near else f"there are: {_listed(given)}" if given else ""
    return LintFinding(
        code=LintCode.POD_CLAIM_NAME,
        severity=Severity.ERROR,
        path=field_path((*claim.steps, "name")),
        message=no_such_claim(claim.name),
        hint=hint,
    )


def _near(name: str, names: Iterable[str]) -> str:
    """Return the name that was meant; empty where none of the first hundred is near."""
    few = [each for each in islice(names, _MOST_COMPARED) if len(each) <= _LONGEST_NAME]
    return next(iter(close_matches(name, few, cutoff=_NEAR, longest=_LONGEST_NAME)), "")


def _listed(names: Collection[str]) -> str:
    return ", ".join(islice(names, _MOST_SHOWN)) + (", …" if len(names) > _MOST_SHOWN else "")


def _unused(entries: Iterable[_Entry], namespace: str, known: KnownClaims) -> Iterator[LintFinding]:
    needs_container: dict[tuple[str, str], bool] = {}
    for entry in entries:
        check()
        sources = ((kind, str(entry.fields.get(key))) for key, kind in _FIELDS.items())
        source = next((source for source in sources if (source[0], namespace, source[1]) in known.claims), None)
        if source is None:
            continue
        if source not in needs_container:
            # The network interface of a NIC is the pod's: no container has to name the claim.
            parts = list(parts_of(known.claims[source[0], namespace, source[1]], known.classes))
            is_seen = all(part.kinds and not part.kinds & NIC_KINDS for part in parts)
            needs_container[source] = bool(parts) and is_seen
        if needs_container[source]:
            yield LintFinding(
                code=LintCode.POD_CLAIM_UNUSED,
                severity=Severity.WARNING,
                path=field_path(entry.steps),
                message=f"no container uses claim {shown(entry.name)}: its devices are allocated, and nobody sees them",
                hint=f"add to a container: resources.claims: [{{name: {entry.name}}}]",
            )


def _resources_of_classes(pod: PodSpec, known: KnownClaims) -> Iterator[LintFinding]:
    for steps, container in containers(pod):
        check()
        for resource, (_, field_steps) in resources_of(container, steps).items():
            name = resource.removeprefix(CLASS_PREFIX)
            if name != resource and name not in known.classes:
                yield unknown_class(field_path(field_steps), name, known.classes, are_all=known.classes_are_all)


def _device_plugins(pod: PodSpec, namespace: str, known: KnownClaims) -> Iterator[LintFinding]:
    converted = converted_pod(pod, known.settings, namespace)
    if converted is None:
        return
    refused = next((finding for finding in converted.findings if finding.outcome is Outcome.REFUSED), None)
    if refused is not None and not converted.read:
        yield _of_a_device_plugin(
            refused.field, f"asks for devices, for which there is no claim: {refused.text}", _GUIDE
        )
    for each in converted.read:
        check()
        held = [held for part in each.container.parts for held in part.held]
        systems = listed(list(dict.fromkeys(part.dialect.name for part in each.container.parts)))
        asked = f"asks {systems} for {_listed(dict.fromkeys(item.name for item in held))}"
        if each.claim is None:
            said = next(finding.text for finding in each.findings if finding.outcome is Outcome.REFUSED)
            yield _of_a_device_plugin(held[0].field, f"{asked}, for which there is no claim: {said}", _GUIDE)
            continue
        noted = dict.fromkeys(finding.text for finding in each.findings if finding.outcome is Outcome.NOTED)
        where = _WRITES_IT
        if refused is not None:
            where = f"`rootport convert` leaves the pod as it is; {refused.field} does not convert: {refused.text}"
        hint = "; ".join([*islice(noted, _MOST_NOTES), where])
        yield _of_a_device_plugin(held[0].field, f"{asked}; as a claim: {'; '.join(claim_lines(each.request))}", hint)


def _of_a_device_plugin(path: str, message: str, hint: str) -> LintFinding:
    return LintFinding(
        code=LintCode.DEVICE_PLUGIN_RESOURCE, severity=Severity.NOTE, path=path, message=message, hint=hint
    )
