"""Reads what pods take of their nodes, and what nodes have, from the API's JSON.

What a pod requests: PodRequests in k8s.io/component-helpers v0.37.2, resource/helpers.go (its containers together with
its sidecars, or the init container that needs most beside the sidecars before it; what the pod requests as a whole
counts instead; and its overhead). Terms and constraints: k8s.io/kube-scheduler v0.37.2, framework/types.go, and
k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from driver.explain.known.amounts import amounts
from driver.explain.known.needs import HostPort, LabelRequirement, LabelSelector, PodNeeds, PodTerm, SpreadRule
from driver.explain.known.reading import Json, interned, text
from driver.memo import Memo
from driver.objects.extended_resources import MAX_POD_RESOURCES

__all__ = ["NEEDS_METADATA", "NEEDS_SPEC", "kept_needs", "read_needs"]

NEEDS_METADATA: Final = ("labels",)
NEEDS_SPEC: Final = ("affinity", "overhead", "resources", "schedulingGroup", "topologySpreadConstraints")
"""What :func:`read_needs` reads whole; of a pod's containers and volumes it reads :func:`kept_needs`."""

_VOLUMES: Final = "its persistent volumes"
_MOST: Final = 256
"""Of containers, ports, terms and labels of a pod; with more, the pod is not evaluated."""
_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
_HOST: Final = "0.0.0.0"  # noqa: S104 - no socket is bound
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})

_Value = TypeVar("_Value")

_KNOWN: Final[Memo[object, Any]] = Memo(8192)
"""Equal amounts and labels are held once: thousands of pods are of a few kinds."""


def kept_needs(spec: Json) -> dict[str, Any]:
    """Return what :func:`read_needs` reads of a pod's containers and volumes, without images and environments.

    The order of containers stays, for their places mean something.
    """
    kept: dict[str, Any] = {
        kind: [_kept(container) for container in islice(spec.get(kind) or (), _MOST + 1)]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }
    binding = [part for volume in spec.get("volumes") or () if (part := _volume(volume))]
    return kept | ({"volumes": binding[:1]} if binding else {})


def _kept(container: Json) -> dict[str, Any]:
    resources = container.get("resources") or {}
    kept: dict[str, Any] = {
        "resources": {
            kind: dict(islice(amounts.items(), MAX_POD_RESOURCES + 1))
            for kind in ("limits", "requests")
            if (amounts := resources.get(kind))
        }
    }
    ports = [port for port in islice(container.get("ports") or (), _MOST + 1) if port.get("hostPort")]
    return (
        ({key: container[key] for key in ("restartPolicy",) if container.get(key)})
        | ({key: value for key, value in kept.items() if value})
        | (
            {"ports": [{key: port.get(key) for key in ("hostIP", "hostPort", "protocol")} for port in ports]}
            if ports
            else {}
        )
    )


def _volume(wire: Json) -> dict[str, Any]:
    """Return the part of a volume that binds a pod to nodes: a persistent one, or a claim that is made for it."""
    return {key: {} for key in ("persistentVolumeClaim", "ephemeral") if wire.get(key) is not None}


def read_needs(wire: Json) -> PodNeeds:
    """Return what a Pod takes of its node, and what it wants of other pods."""
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    namespace = text(metadata.get("namespace"))
    labels = _held({interned(key): interned(value) for key, value in (metadata.get("labels") or {}).items()})
    affinity = spec.get("affinity") or {}
    problems = list(dict.fromkeys(_problems(spec)))
    if problems:
        # Half of it would be taken for all of it.
        return PodNeeds(labels=labels, not_evaluated=tuple(problems))
    return PodNeeds(
        requests=_held(_requests(wire)),
        ports=tuple(_ports(spec)),
        labels=labels,
        near=tuple(_terms(affinity.get("podAffinity"), namespace, labels)),
        apart=tuple(_terms(affinity.get("podAntiAffinity"), namespace, labels)),
        spread=tuple(_spread(spec, labels)),
        unchecked=(_VOLUMES,) if any(map(_volume, spec.get("volumes") or ())) else (),
    )


def _problems(spec: Json) -> Iterator[str]:
    """Yield what of a pod's spec is not evaluated."""
    for kind in ("initContainers", "containers"):
        if len(spec.get(kind) or ()) > _MOST:
            yield f"more than {_MOST} {kind}"
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            if any(len(resources.get(of) or ()) > MAX_POD_RESOURCES for of in ("limits", "requests")):
                yield f"a container that names more than {MAX_POD_RESOURCES} resources"
            if len(container.get("ports") or ()) > _MOST:
                yield f"a container with more than {_MOST} ports"
    if spec.get("schedulingGroup"):
        yield "a scheduling group: its pods are scheduled together"
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = _required(affinity.get(kind))
        if len(terms) > _MOST:
            yield f"more than {_MOST} terms of {kind}"
        if any(_selects(term.get("namespaceSelector")) for term in terms[:_MOST]):
            yield f"a namespaceSelector in its {kind}"
    if len(spec.get("topologySpreadConstraints") or ()) > _MOST:
        yield f"more than {_MOST} topologySpreadConstraints"


def _selects(namespaces: Json | None) -> bool:
    """Whether a selector of namespaces selects by labels: one without requirements selects all."""
    return namespaces is not None and bool(namespaces.get("matchLabels") or namespaces.get("matchExpressions"))


def _required(affinity: Json | None) -> list[Json]:
    return list((affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _requests(wire: Json) -> dict[str, int]:
    spec, status = wire.get("spec") or {}, wire.get("status") or {}
    actual = {
        item.get("name"): item
        for kind in ("initContainerStatuses", "containerStatuses")
        for item in status.get(kind) or ()
        if item.get("resources") or item.get("allocatedResources")
    }
    together: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(together, _of_container(container, actual))
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _of_container(container, actual)
        if container.get("restartPolicy") == "Always":
            _add(together, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        _raise(most, asked)
    _raise(together, most)
    of_pod = (spec.get("resources") or {}).get("requests") or {}
    together |= {key: amount for key, amount in amounts(of_pod).items() if key.startswith(_POD_LEVEL)}
    _add(together, amounts(spec.get("overhead") or {}))
    return {name: amount for name, amount in together.items() if amount}


def _of_container(container: Json, actual: Mapping[object, Json]) -> dict[str, int]:
    """Return what a container requests: what is limited and not requested is requested as well.

    While it is being resized, the most of what it asks for, what the kubelet has promised, and what it has.
    """
    resources = container.get("resources") or {}
    asked = amounts(resources.get("limits") or {}) | amounts(resources.get("requests") or {})
    status = actual.get(container.get("name")) if container.get("name") else None
    if status is not None:
        _raise(asked, amounts(status.get("allocatedResources") or {}))
        _raise(asked, amounts((status.get("resources") or {}).get("requests") or {}))
    return asked


def _add(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def _raise(into: dict[str, int], to: Mapping[str, int]) -> None:
    for name, amount in to.items():
        into[name] = max(into.get(name, 0), amount)


def _ports(spec: Json) -> Iterator[HostPort]:
    """Yield the ports of the node that a pod takes, by its sidecars too (k8s.io/kubernetes, plugins/nodeports)."""
    sidecars = (item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always")
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield HostPort(text(port.get("hostIP")) or _HOST, text(port.get("protocol")) or "TCP", port["hostPort"])


def _terms(affinity: Json | None, namespace: str, labels: Mapping[str, str]) -> Iterator[PodTerm]:
    for term in _required(affinity):
        selector = _selector(term.get("labelSelector"))
        every = term.get("namespaceSelector") is not None
        names = frozenset(map(text, term.get("namespaces") or ()))
        yield _held(
            PodTerm(
                selector=_with_keys(selector, term, labels),
                namespaces=None if every else names or frozenset({namespace}),
                topology=text(term.get("topologyKey")),
            )
        )


def _spread(spec: Json, labels: Mapping[str, str]) -> Iterator[SpreadRule]:
    for item in spec.get("topologySpreadConstraints") or ():
        if item.get("whenUnsatisfiable") == "DoNotSchedule":
            yield SpreadRule(
                topology=text(item.get("topologyKey")),
                selector=_with_keys(_selector(item.get("labelSelector")), item, labels),
                most_skew=int(item.get("maxSkew") or 1),
                least_places=int(item.get("minDomains") or 1),
                by_affinity=item.get("nodeAffinityPolicy") != "Ignore",
                by_taints=item.get("nodeTaintsPolicy") == "Honor",
            )


def _with_keys(selector: LabelSelector | None, wire: Json, labels: Mapping[str, str]) -> LabelSelector | None:
    """Return the selector with what ``matchLabelKeys`` and ``mismatchLabelKeys`` say for a pod with these labels.

    The API server has written it into the selector already; twice does no harm.
    """
    if selector is None:
        return None
    more = [
        LabelRequirement(key, operator, frozenset({labels[key]}))
        for kind, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in map(text, wire.get(kind) or ())
        if key in labels
    ]
    return LabelSelector((*selector.requirements, *more)) if more else selector


def _selector(wire: Json | None) -> LabelSelector | None:
    if wire is None:
        return None
    return _held(LabelSelector(tuple(_requirements(wire))))


def _requirements(wire: Json) -> Iterable[LabelRequirement]:
    for key, value in sorted((wire.get("matchLabels") or {}).items()):
        yield LabelRequirement(interned(key), "In", frozenset({interned(value)}))
    for item in wire.get("matchExpressions") or ():
        operator = text(item.get("operator"))
        if operator not in _OPERATORS:
            raise ValueError(f"{operator!r} is no operator of a label selector")
        yield LabelRequirement(interned(item.get("key")), operator, frozenset(map(interned, item.get("values") or ())))


def _held(value: _Value) -> _Value:
    """Return the one object of all that are equal to ``value``."""
    key: object = tuple(sorted(value.items())) if isinstance(value, dict) else value
    found: _Value = _KNOWN.of((type(value), key), lambda: value)
    return found
