"""Converts an object: finds its pods by their form or where the settings say, and rewrites them.

Nothing is changed in place: what is rewritten is new, and shares the rest with what was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from driver.api.pod_templates import PodSpec, Steps, pod_specs
from driver.budget import check
from driver.convert.claims import template
from driver.convert.dialects.koordinator import KOORDINATOR, RESERVATION, is_reservation
from driver.convert.findings import Conversion, Finding, Outcome, worst
from driver.convert.other_drivers import convert_claim, is_claim, is_generated
from driver.convert.percentages import spec_over_sizes, with_sizes
from driver.convert.pods import ConvertedPod, converted_pod
from driver.convert.settings import DEFAULT, Settings

__all__ = ["convert", "pods_at", "pods_of"]

_MOST_PODS: Final = 1000
"""The most pods of one object that are converted, and objects of a list."""
_STEP: Final = re.compile(r"([^.\[\]]{1,253})((?:\[\*\])?)")


def convert(data: Mapping[str, Any], settings: Settings = DEFAULT) -> Conversion:
    """Return an object with claims in place of what it asks of device plugins and other systems' schedulers.

    A pod is looked for by its form, in objects of any kind: Pod, Deployment, StatefulSet, DaemonSet, Job, CronJob,
    JobSet, LeaderWorkerSet, List and the kinds of operators. Claims that were written for other DRA drivers, their
    templates and DeviceClasses are converted as well. One that cannot be converted leaves all of the object as
    it was. What is converted once is UNCHANGED the next time.

    Args:
        data: A Kubernetes object, as it was written: JSON types, nothing of it checked.
        settings: How to convert.

    Raises:
        SpentError: The budget in force (:mod:`driver.budget`) is spent.
    """
    if is_claim(data):
        converted_claim = convert_claim(data)
        return converted_claim if is_generated(data) else with_sizes(converted_claim, settings.sizes)
    kind = data.get("kind")
    items = data.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        return _list(data, items, settings)
    namespace = _namespace(data)
    found: list[tuple[PodSpec, ConvertedPod]] = []
    findings: list[Finding] = []
    for pod in pods_of(data, settings):
        check()
        converted = converted_pod(pod, settings, namespace)
        if converted is None:
            continue
        found.append((pod, converted))
        findings += converted.findings
        if len(found) >= _MOST_PODS:
            findings.append(_too_many("pods of one object"))
            break
    if found and is_reservation(data):
        findings.append(_reservation())
    outcome = worst(tuple(findings))
    if outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
        return Conversion(object=data, findings=tuple(findings), outcome=outcome)
    templates: dict[str, Mapping[str, Any]] = {}
    changed: Any = data
    for pod, converted in found:
        names: dict[str, str] = {}
        for claim in converted.claims:
            spec, lines = spec_over_sizes(claim.claim.spec, settings.sizes)
            findings += [_over_sizes(line) for line in lines]
            written = template(spec, namespace)
            names[claim.name] = written["metadata"]["name"]
            templates[names[claim.name]] = written
        changed = _with(changed, pod.steps, _spec(pod, converted, names))
        if (metadata := pod.metadata_steps) is not None and converted.annotations:
            changed = _with(changed, metadata, _metadata(_at(changed, metadata), converted.annotations))
    return Conversion(object=changed, templates=tuple(templates.values()), findings=tuple(findings), outcome=outcome)


def _list(data: Mapping[str, Any], items: Sequence[Any], settings: Settings) -> Conversion:
    """Convert the objects of a list; one that is refused leaves the whole list as it was."""
    findings: list[Finding] = []
    templates: dict[tuple[str, str], Mapping[str, Any]] = {}
    converted: list[Any] = []
    if len(items) > _MOST_PODS:
        findings.append(_too_many("objects in a list"))
        items = ()
    for index, item in enumerate(items):
        # A list in a list is no object of Kubernetes.
        if not isinstance(item, Mapping) or isinstance(item.get("items"), list):
            converted.append(item)
            continue
        one = convert(item, settings)
        findings += [replace(finding, field=f"items[{index}].{finding.field}") for finding in one.findings]
        converted.append(one.object)
        for each in one.templates:
            templates[each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each
    outcome = worst(tuple(findings))
    if outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
        return Conversion(object=data, findings=tuple(findings), outcome=outcome)
    changed = {**data, "items": converted}
    return Conversion(object=changed, templates=tuple(templates.values()), findings=tuple(findings), outcome=outcome)


def _too_many(what: str) -> Finding:
    return Finding(
        dialect="",
        field="",
        value="",
        outcome=Outcome.REFUSED,
        text=f"more than {_MOST_PODS} {what}: convert them in several files",
    )


def _over_sizes(line: str) -> Finding:
    return Finding(dialect="", field="", value="", outcome=Outcome.CONVERTED, text=line)


def _reservation() -> Finding:
    return Finding(
        dialect=KOORDINATOR.name,
        field="kind",
        value="Reservation",
        outcome=Outcome.REFUSED,
        text=f"{RESERVATION}; delete it",
    )


def pods_of(data: Mapping[str, Any], settings: Settings) -> Iterator[PodSpec]:
    """Yield the pods of an object, found by their form or where the settings say."""
    kind = data.get("kind")
    paths = settings.pod_paths.get(kind) if isinstance(kind, str) else None
    if paths is None:
        yield from pod_specs(data)
        return
    for path in paths:
        yield from pods_at(data, path)


def pods_at(data: Mapping[str, Any], path: str) -> Iterator[PodSpec]:
    """Yield what is at a path of :attr:`Settings.pod_paths`, which names a pod template or a pod's spec."""
    for steps, value in _places(data, path):
        spec = value.get("spec")
        if isinstance(spec, Mapping):
            yield PodSpec((*steps, "spec"), spec, _mapping(value.get("metadata")))
        elif steps and steps[-1] == "spec":
            yield PodSpec(steps, value, _mapping(_at(data, (*steps[:-1], "metadata"))))
        else:
            yield PodSpec(steps, value)


def _places(data: Mapping[str, Any], path: str) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Yield what is at a path such as ``spec.workers[*].template``; nothing where the object lacks it."""
    places: list[tuple[Steps, Any]] = [((), data)]
    for step in path.split("."):
        match = _STEP.fullmatch(step)
        if match is None:
            return
        places = [((*steps, match[1]), value[match[1]]) for steps, value in places if _has(value, match[1])]
        if match[2]:
            places = [
                ((*steps, index), item)
                for steps, value in places
                if isinstance(value, list)
                for index, item in enumerate(value[: _MOST_PODS + 1])
            ]
    yield from ((steps, value) for steps, value in places if isinstance(value, Mapping))


def _has(value: object, name: str) -> bool:
    return isinstance(value, Mapping) and name in value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _namespace(data: Mapping[str, Any]) -> str:
    metadata = data.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return namespace if isinstance(namespace, str) else ""


def _spec(pod: PodSpec, converted: ConvertedPod, templates: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = dict(pod.spec)
    if converted.drops_scheduler:
        del spec["schedulerName"]
    kept = spec.get("resourceClaims")
    spec["resourceClaims"] = [
        *(kept if isinstance(kept, list) else ()),
        *({"name": name, "resourceClaimTemplateName": made} for name, made in templates.items()),
    ]
    for steps, names in converted.resources.items():
        inside = steps[len(pod.steps) :]
        container = _at(spec, inside)
        spec = _with(spec, inside, _container(container, names, converted.uses.get(steps, ())))
    return spec


def _container(
    container: Mapping[str, Any], names: frozenset[str], uses: Sequence[tuple[str, str]]
) -> Mapping[str, Any]:
    resources = dict(container["resources"])
    for kind in ("limits", "requests"):
        amounts = resources.get(kind)
        if isinstance(amounts, Mapping):
            left = {name: amount for name, amount in amounts.items() if name not in names}
            if left:
                resources[kind] = left
            else:
                del resources[kind]
    kept = resources.get("claims")
    resources["claims"] = [
        *(kept if isinstance(kept, list) else ()),
        *({"name": name, **({"request": request} if request else {})} for name, request in uses),
    ]
    return {**container, "resources": resources}


def _metadata(metadata: Mapping[str, Any], leaving: frozenset[str]) -> Mapping[str, Any]:
    left = {name: text for name, text in metadata["annotations"].items() if name not in leaving}
    if left:
        return {**metadata, "annotations": left}
    return {name: value for name, value in metadata.items() if name != "annotations"}


def _at(data: Any, steps: Steps) -> Any:
    """Return what is there; None where there is nothing."""
    for step in steps:
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _with(data: Any, steps: Steps, value: Any) -> Any:
    """Return the data with another value at a place that it has."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    copied: Any = list(data) if isinstance(data, list) else dict(data)
    copied[step] = _with(data[step], rest, value)
    return copied
