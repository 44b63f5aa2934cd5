"""Reads from manifests what pods ask of claims: from pods, and from the objects that controllers make pods of.

Only pods that name claims or ask for extended resources count, and only those parts of their spec are checked. What a
container asks for is defined in :mod:`driver.api.pod_templates`, which the linter uses as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from driver.adapters.files.yaml_documents import Document, printable
from driver.adapters.manifests.pod_owners import (
    MAX_POD_CLAIMS_IN_ALL,
    POD_OWNERS,
    PodTemplate,
    WrongFieldError,
    mapping,
)
from driver.api.pod_templates import CONTAINER_LISTS, PodSpec, containers, no_such_claim, resources_of
from driver.api.resource_v1 import DeviceClass
from driver.api.validation.errors import FieldError
from driver.api.validation.names import label, subdomain
from driver.convert import Outcome, Settings, convert
from driver.errors import InputError
from driver.explain.known.cluster import EXTENDED_CLAIM, PodState
from driver.explain.known.needs_reading import NEEDS_SPEC
from driver.explain.known.pod_reading import MAX_POD_CLAIMS, read_pod
from driver.explain.known.reading import DEFAULT_NAMESPACE, UnreadableError, read_safely
from driver.objects.extended_resources import CLASS_PREFIX, MAX_POD_RESOURCES, is_extended
from driver.simulation import Unclaimed, Workload
from driver.wording import listed

__all__ = ["MAX_POD_CLAIMS_IN_ALL", "read_workloads"]

_LONG: Final = 5_000
"""So many characters of a pod's containers count as one claim, for ``--out`` writes those of each pod."""

_RESOURCE: Final = re.compile(r".*\.resources\.(?:limits|requests)\[([^\]]*)\]")
"""The field of a resource, as the converter's findings have it."""
_READ: Final = ("resourceClaims", "nodeName", *CONTAINER_LISTS)
_READ_FOR_NODES: Final = (
    *_READ,
    *NEEDS_SPEC,
    "nodeSelector",
    "schedulerName",
    "schedulingGates",
    "tolerations",
    "volumes",
)
_Path = tuple[str | int, ...]


def read_workloads(
    documents: Sequence[Document], classes: Mapping[str, DeviceClass], *, for_nodes: bool = False
) -> list[tuple[Document, Workload]]:
    """Return the workloads, with their documents; a JobSet has one for each of its Jobs.

    Args:
        documents: The objects.
        classes: All DeviceClasses by name.
        for_nodes: Whether what decides about nodes is read as well: labels, tolerations, affinity and the like.

    Raises:
        InputError: A workload's claims or number of pods are not valid, two workloads have one name, or there are more
            claims than :data:`MAX_POD_CLAIMS_IN_ALL`. Names the file, line and field.
    """
    found: list[tuple[Document, Workload]] = []
    errors: list[str] = []
    first: dict[tuple[str, str, str], Document] = {}
    resources = frozenset(filter(None, (item.spec.extended_resource_name for item in classes.values())))
    left = MAX_POD_CLAIMS_IN_ALL
    for place, document in enumerate(documents):
        templates = POD_OWNERS.get((document.data.get("apiVersion"), document.kind))
        if templates is None:
            continue
        try:
            workloads = list(_workloads(document, templates, place, resources, left, for_nodes=for_nodes))
        except WrongFieldError as error:
            errors.append(document.error(error.path, str(error)))
            continue
        if workloads:
            key = (document.kind, workloads[0].pod.namespace, _name(document.data))
            earlier = first.setdefault(key, document)
            if earlier is not document and mapping(document.data, ("metadata",)).get("name"):
                errors.append(f"{document.where}: {key[0]} {key[1]}/{key[2]} is already defined at {earlier.where}")
        found += [(document, workload) for workload in workloads]
        left -= sum(len(workload.pods) * _weight(workload) for workload in workloads)
    if errors:
        raise InputError.of_all(errors)
    return found


def _workloads(
    document: Document,
    templates: Callable[[Mapping[str, Any]], Iterator[PodTemplate]],
    place: int,
    resources: frozenset[str],
    most: int,
    *,
    for_nodes: bool,
) -> Iterator[Workload]:
    data, settings = document.data, Settings(left_alone=resources)
    for template in templates(data):
        spec = mapping(data, (*template.path, "spec"))
        path: _Path = (*template.path, "spec")
        unclaimed = _unclaimed(data, template, spec, settings)
        if not spec.get("resourceClaims") and not unclaimed and not _asks_for(spec, resources):
            _check_containers(spec, path)
            continue
        name = f"{_name(data)}{template.suffix}"
        workload = replace(_workload(data, template, spec, name, place, for_nodes=for_nodes), unclaimed=unclaimed)
        jobs = 1 if template.jobs is None else template.jobs()
        pods = 1 if template.count is None else template.count() if jobs else 0
        most -= jobs * pods * _weight(workload)
        if most < 0:
            message = f"with it pods name more than {MAX_POD_CLAIMS_IN_ALL} claims and resources"
            raise WrongFieldError(("spec",), f"{message}: simulate fewer at a time")
        many = template.jobs is not None and pods > 0
        for job in [f"{name}-{number}" for number in range(jobs)] if many else [name]:
            names = [job] if template.count is None else [f"{job}-{number + template.first}" for number in range(pods)]
            yield replace(workload, pods=() if workload.pod.ended else tuple(names))


def _workload(
    data: Mapping[str, Any],
    template: PodTemplate,
    spec: Mapping[str, Any],
    name: str,
    place: int,
    *,
    for_nodes: bool,
) -> Workload:
    """Return what the pods have in common; only a pod by itself has been seen by an API server."""
    is_pod = template.count is None
    wire = {
        "metadata": {"name": name, "namespace": _namespace(data)}
        | ({"uid": mapping(data, ("metadata",)).get("uid")} if is_pod else {})
        | ({"labels": mapping(data, (*template.path, "metadata")).get("labels")} if for_nodes else {}),
        "spec": {key: spec[key] for key in (_READ_FOR_NODES if for_nodes else _READ) if key in spec},
        "status": mapping(data, ("status",)) if is_pod else {},
    }
    path: _Path = (*template.path, "spec")
    claims = (*path, "resourceClaims")
    try:
        pod = read_safely(read_pod, wire)
    except UnreadableError as error:
        raise WrongFieldError(claims if spec.get("resourceClaims") else path, str(error)) from error
    _check(pod, claims)
    _check_containers(spec, path)
    if pod.has_more_resources:
        raise WrongFieldError(path, f"containers name more than {MAX_POD_RESOURCES} resources")
    if pod.node:
        _check_name(subdomain, (*path, "nodeName"), pod.node)
    return Workload(pod=pod, containers=_containers(spec, pod), place=place)


def _unclaimed(
    data: Mapping[str, Any], template: PodTemplate, spec: Mapping[str, Any], settings: Settings
) -> Unclaimed | None:
    """Return what the pod asks of another system; None if nothing, or if it has a node and with it what it asked."""
    if spec.get("nodeName"):
        return None
    metadata = mapping(data, (*template.path, "metadata"))
    found = convert({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, settings)
    asked = [(finding, _RESOURCE.fullmatch(finding.field)) for finding in found.findings]
    amounts = {resource[1]: printable(finding.value) for finding, resource in asked if resource}
    if not amounts:
        return None
    dialects = dict.fromkeys(finding.dialect for finding, resource in asked if resource)
    systems = dict.fromkeys("a device plugin" if "device plugin" in name or not name else name for name in dialects)
    return Unclaimed(amounts=amounts, system=listed(list(systems)), converts=found.outcome is not Outcome.REFUSED)


def _asks_for(spec: Mapping[str, Any], resources: Collection[str]) -> bool:
    """Whether containers, valid or not, ask for devices as extended resources.

    A pod that names its node already has the resources of device plugins: there, only those with a class count.
    """
    is_placed = bool(spec.get("nodeName"))
    return any(
        name in resources or name.startswith(CLASS_PREFIX) or (not is_placed and is_extended(name))
        for steps, container in containers(PodSpec((), spec))
        for name in resources_of(container, steps)
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _containers(spec: Mapping[str, Any], pod: PodState) -> dict[str, list[dict[str, Any]]]:
    """Return what explain and lint read of the containers: each replica has them."""
    before, others = (spec.get(kind) or [] for kind in CONTAINER_LISTS)
    asking = {container.place for container in pod.containers}
    kept = [_asking(container, with_amounts=place in asking) for place, container in enumerate([*before, *others])]
    while kept and not kept[-1]:
        kept.pop()
    main = kept[len(before) :] or [{}]
    name = others[0].get("name") if others else None
    if isinstance(name, str) and not any(label("", name)):
        main[0] = {"name": name} | main[0]
    return {kind: items for kind, items in zip(CONTAINER_LISTS, (kept[: len(before)], main), strict=True) if any(items)}


def _asking(container: object, *, with_amounts: bool) -> dict[str, Any]:
    """Return what a container uses of the pod's claims, and, where they count, its extended resources."""
    fields = _dict(container)
    names = [_dict(entry).get("name") for entry in _list(_dict(fields.get("resources")).get("claims"))]
    claims = [{"name": name} for name in names if isinstance(name, str)]
    kept: dict[str, Any] = {"claims": claims} if claims else {}
    if with_amounts:
        kept["requests"] = {name: amount for name, (amount, _) in resources_of(fields, ()).items()}
    policy = fields.get("restartPolicy") if with_amounts else None
    return ({"resources": kept} if kept else {}) | ({"restartPolicy": policy} if policy else {})


def _weight(workload: Workload) -> int:
    """Return how many claims a pod of the workload counts as."""
    pod = workload.pod
    asked = sum(len(container.asked) for container in pod.containers)
    return max(1, len(pod.claims) + asked) + len(json.dumps(workload.containers)) // _LONG


def _check(pod: PodState, path: _Path) -> None:
    """Refuse names that the API server would refuse, for they are printed and written."""
    _check_name(subdomain, ("metadata", "name"), pod.name)
    _check_name(label, ("metadata", "namespace"), pod.namespace)
    if pod.has_more_claims:
        raise WrongFieldError(path, f"more than {MAX_POD_CLAIMS} claims")
    for index, entry in enumerate(pod.claims):
        if entry.name == EXTENDED_CLAIM:
            _check_name(subdomain, ("status", "extendedResourceClaimStatus", "resourceClaimName"), entry.claim)
            continue
        if not entry.claim and not entry.template:
            raise WrongFieldError((*path, index), "needs a resourceClaimName or a resourceClaimTemplateName")
        _check_name(label, (*path, index, "name"), entry.name)
        if entry.template:
            _check_name(subdomain, (*path, index, "resourceClaimTemplateName"), entry.template)
        if entry.claim:
            _check_name(subdomain, (*path, index, "resourceClaimName"), entry.claim)
    if len({entry.name for entry in pod.claims}) != len(pod.claims):
        raise WrongFieldError(path, "two of them have one name")


def _check_containers(spec: Mapping[str, Any], path: _Path) -> None:
    """Refuse claims that a container names and the pod does not have."""
    names = [_dict(entry).get("name") for entry in _list(spec.get("resourceClaims"))]
    known = {name for name in names if isinstance(name, str)}
    for steps, container in containers(PodSpec(path, spec)):
        for index, entry in enumerate(_list(_dict(container.get("resources")).get("claims"))):
            name = _dict(entry).get("name")
            if isinstance(name, str) and name not in known:
                raise WrongFieldError((*steps, "resources", "claims", index, "name"), no_such_claim(name))


def _check_name(rule: Callable[[str, str], Iterator[FieldError]], path: _Path, name: str) -> None:
    for error in rule("", name):
        raise WrongFieldError(path, error.message)


def _name(data: Mapping[str, Any]) -> str:
    """Return the object's name, or its ``generateName``."""
    metadata = mapping(data, ("metadata",))
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str) or not name.strip("-"):
        raise WrongFieldError(("metadata", "name"), "is required")
    return name.rstrip("-")


def _namespace(data: Mapping[str, Any]) -> str:
    namespace = mapping(data, ("metadata",)).get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(namespace, str):
        raise WrongFieldError(("metadata", "namespace"), "expected a text")
    return namespace
