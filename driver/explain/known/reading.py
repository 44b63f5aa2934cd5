"""Reads the API's JSON, and keeps of it what explain needs (of pods: :mod:`driver.explain.known.pod_reading`).

Nothing that an object holds makes more than that object unreadable: what cannot be read raises :class:`UnreadableError`
with the field, and the explanation has a note. Of claims even that becomes an answer, see
:attr:`ClaimState.unreadable`.

Fields of claims' specs that this version does not know make a claim unreadable, since its meaning is not known
then. In all other objects they are passed over, as Kubernetes' own clients do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from sys import intern
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from driver import DRIVER_NAME
from driver.allocator.identity import DeviceId
from driver.allocator.ledger import Holding, holding
from driver.allocator.node_selection import only_on
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    DeviceClass,
    DeviceTaint,
    Node,
    NodeSelector,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from driver.api.validation.defaults import with_defaults
from driver.api.validation.wording import first_error
from driver.explain.known.amounts import amounts
from driver.explain.known.cluster import (
    ClaimState,
    InventoryReport,
    NodeState,
    NodeTaint,
    TaintRule,
)
from driver.explain.reasons import Reason
from driver.model.alignment import group_on_last_rung
from driver.model.managed_nodes import ANNOTATION
from driver.objects.binding_conditions import unready_devices
from driver.objects.consumers import is_pod, is_pod_group
from driver.objects.extended_resources import CLAIM_ANNOTATION, extended_amounts
from driver.objects.health import node_health
from driver.wording import short

__all__ = [
    "DEFAULT_NAMESPACE",
    "PLACEMENT_SAYS",
    "UnreadableError",
    "asked_claim",
    "interned",
    "may_hold_devices",
    "model",
    "object_key",
    "read_claim_state",
    "read_class",
    "read_inventory",
    "read_node",
    "read_safely",
    "read_taint_rule",
    "text",
]

DEFAULT_NAMESPACE: Final = "default"
"""Of an object in a file that names no namespace, as kubectl applies it."""

_MOST_ASKED: Final = 4096
"""Characters of a claim's specification."""
_MOST_RESERVED: Final = 256  # ResourceClaimReservedForMaxSize, k8s.io/api v0.36.3, resource/v1/types.go
PENDING_REASON: Final = f"{DRIVER_NAME}/pending-reason"
PENDING_MESSAGE: Final = f"{DRIVER_NAME}/pending-message"
"""The annotations of a claim that the controller has explained."""
PLACEMENT_SAYS: Final = "Rootport's placement says: "
"""Stands in such a message before placement's own words."""
_MOST_READ: Final = 8192
_MOST_PLACED: Final = 600
"""Characters of what placement has written about a claim: many claims have it."""
_PUBLISHED: Final = "Published"
_SUMMARIES: Final = (_PUBLISHED, "Ready")
_ALL_MODES: Final = "AllModesPublished"
"""The conditions of a NodeInventory that sum up: the controller's, and the plugin's."""

Json = Mapping[str, Any]
_Read = TypeVar("_Read")
_Model = TypeVar("_Model", bound=BaseModel)


class UnreadableError(Exception):
    """An object is not what the API server would store; the message names the field."""


def read_safely(read: Callable[[Json], _Read], wire: Json) -> _Read:
    """Return what ``read`` makes of ``wire``.

    Raises:
        UnreadableError: It is not what it should be, whatever error ``read`` ended with.
    """
    try:
        return read(wire)
    except ValidationError as error:
        raise UnreadableError(first_error(error)) from error
    except Exception as error:  # an OverflowError of a number, an error of decimal
        raise UnreadableError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Return what is wrong in words of the API: Python's own messages name Python's types."""
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    if isinstance(error, AttributeError | IndexError | RecursionError):
        return "a field is not of the type that the API has"
    return str(error)


def object_key(wire: Json) -> str:
    """Return ``namespace/name``, or ``name`` where there is no namespace.

    Raises:
        UnreadableError: It has no name.
    """
    metadata = wire.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise UnreadableError("metadata.name: it has none")
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def may_hold_devices(wire: Json) -> bool:
    """Whether a ResourceClaim that cannot be read may have devices: not where it has no allocation."""
    status = wire.get("status")
    return not (status is None or (isinstance(status, Mapping) and status.get("allocation") is None))


def read_class(wire: Json) -> DeviceClass:
    """Read a DeviceClass."""
    metadata = {key: wire["metadata"].get(key) for key in ("name", "creationTimestamp")}
    return model(DeviceClass, {"metadata": metadata, "spec": wire.get("spec") or {}})


def read_claim_state(wire: Json) -> ClaimState:
    """Read a ResourceClaim; what is wrong with its spec is in the result."""
    metadata = wire["metadata"]
    namespace, name, uid = text(metadata.get("namespace")), text(metadata["name"]), text(metadata.get("uid"))
    status = wire.get("status") or {}
    allocation = status.get("allocation")
    claim, unreadable = None, ""
    if allocation is None:
        try:
            claim = read_safely(lambda wire: _pending_claim(wire, namespace, name, uid), wire)
        except UnreadableError as error:
            unreadable = str(error)
    reserved = status.get("reservedFor") or ()
    selector = (allocation or {}).get("nodeSelector")
    owner = _owner(metadata)
    unready = unready_devices(wire)
    return ClaimState(
        namespace=namespace,
        name=name,
        uid=uid,
        claim=claim,
        asked="" if allocation is None else _asked(wire),
        unreadable=unreadable,
        allocated=allocation is not None,
        holds=tuple(_holdings(allocation or {})),
        last_rungs=tuple(_last_rungs(allocation or {})),
        available_on=None if selector is None else _selector(selector),
        pods=_users(reserved, is_pod),
        pod_groups=_users(reserved, is_pod_group),
        owner_pod=owner,
        is_extended=owner is not None and (metadata.get("annotations") or {}).get(CLAIM_ANNOTATION) == "true",
        reserved_full=len(reserved) >= _MOST_RESERVED,
        deleting=bool(metadata.get("deletionTimestamp")),
        placed=_placed(text((metadata.get("annotations") or {}).get(ANNOTATION))),
        not_placed=_not_placed(metadata.get("annotations") or {}) if allocation is None else "",
        unready=unready,
        allocated_at=text((allocation or {}).get("allocationTimestamp")) if unready else "",
    )


def _users(reserved: Sequence[Json], is_kind: Callable[[Json], bool]) -> tuple[tuple[str, str], ...]:
    return tuple((text(item["name"]), text(item.get("uid"))) for item in reserved if is_kind(item))


def _placed(annotation: str) -> str:
    """Return what the annotation of placement says: JSON with the node and the reason, or anything by anybody else."""
    with suppress(ValueError, RecursionError):
        told = json.loads(annotation[:_MOST_READ])
        if isinstance(told, Mapping) and told.get("node"):
            return short(f"node {told['node']}: {told.get('why') or 'no reason is given'}", _MOST_PLACED)
    return short(annotation, _MOST_PLACED)


def _not_placed(annotations: Json) -> str:
    """Return what placement says in the controller's own explanation, which it has annotated."""
    if annotations.get(PENDING_REASON) != Reason.PLACEMENT_SAYS_OTHERWISE:
        return ""
    _, says, why = text(annotations.get(PENDING_MESSAGE)).partition(PLACEMENT_SAYS)
    return short(why, _MOST_PLACED) if says else ""


def _asked(wire: Json) -> str:
    with suppress(TypeError, ValueError, RecursionError):
        spec = json.dumps({"apiVersion": wire.get("apiVersion"), "spec": wire.get("spec")}, sort_keys=True)
        if len(spec) <= _MOST_ASKED:
            return intern(spec)
    return ""


def asked_claim(asked: str) -> ResourceClaim:
    """Read what an allocated claim asks for (:attr:`ClaimState.asked`), without its name.

    Raises:
        UnreadableError: It has fields that this version does not know.
    """
    return read_safely(lambda wire: _pending_claim(wire, "", "", ""), json.loads(asked))


def _pending_claim(wire: Json, namespace: str, name: str, uid: str) -> ResourceClaim:
    version = wire.get("apiVersion") or "resource.k8s.io/v1"
    # Claims of v1beta2 have the very fields of v1 (k8s.io/api v0.36.3, resource/v1beta2/types.go).
    if version not in {"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}:
        raise UnreadableError(f"apiVersion: {version} is not resource.k8s.io/v1, in which kubectl can show it")
    claim = ResourceClaim(
        # No annotations: what the controller writes there is no change to what is asked for.
        metadata=ObjectMeta(namespace=namespace, name=name, uid=uid),
        spec=ResourceClaimSpec.model_validate(wire.get("spec") or {}),
    )
    # A dump may hold what no API server would store. That two requests have one name is what would mislead the rest.
    requests = claim.spec.devices.requests
    for names in (
        [request.name for request in requests],
        *([part.name for part in r.first_available] for r in requests),
    ):
        if len(set(names)) != len(names):
            raise UnreadableError("spec.devices.requests: two of them have one name")
    return with_defaults(claim)


def _last_rungs(allocation: Json) -> Iterable[str]:
    results = (allocation.get("devices") or {}).get("results") or ()
    own = (text(result.get("request")) for result in results if result.get("driver") == DRIVER_NAME)
    return dict.fromkeys(group for request in own if (group := group_on_last_rung(request)) is not None)


def _holdings(allocation: Json) -> Iterator[Holding]:
    """As :func:`driver.allocator.ledger.holdings`, without making models of what is only counted."""
    for item in (allocation.get("devices") or {}).get("results") or ():
        device = DeviceId(interned(item["driver"]), interned(item["pool"]), interned(item["device"]))
        consumed = item.get("consumedCapacity") or {}
        amounts = {interned(key): Quantity(str(amount)).nano for key, amount in consumed.items()}
        held = holding(device, admin_access=item.get("adminAccess"), share_id=item.get("shareID"), consumed=amounts)
        if held is not None:
            yield held


def _selector(wire: Json) -> NodeSelector:
    """Read a node selector; those of the claims of one node are one object."""
    name = _only_node(wire)
    return only_on(name) if name else model(NodeSelector, wire)


def _only_node(wire: Json) -> str:
    """Return the node that the selector names and nothing else; empty where it names more."""
    terms: Sequence[Json] = wire.get("nodeSelectorTerms") or ()
    if len(terms) != 1 or terms[0].keys() != {"matchFields"}:
        return ""
    fields: Sequence[Json] = terms[0]["matchFields"]
    values: Sequence[str] = (fields[0].get("values") or ()) if fields else ()
    only = [{"key": "metadata.name", "operator": "In", "values": values}]
    return text(values[0]) if fields == only and len(values) == 1 else ""


def _owner(metadata: Json) -> tuple[str, str] | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1" and owner.get("controller") is True:
            return text(owner["name"]), text(owner.get("uid"))
    return None


def read_node(wire: Json) -> NodeState:
    """Read a Node. Its Ready condition counts where it has one: a node that kubelet has not written yet is unknown."""
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    conditions = (wire.get("status") or {}).get("conditions") or ()
    ready = next((item for item in conditions if item.get("type") == "Ready"), None)
    allocatable = (wire.get("status") or {}).get("allocatable")
    labels = {interned(key): interned(value) for key, value in (metadata.get("labels") or {}).items()}
    return NodeState(
        node=Node(metadata=ObjectMeta(name=text(metadata["name"]), labels=labels)),
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(
            NodeTaint(key=text(item["key"]), value=text(item.get("value")), effect=text(item.get("effect")))
            for item in spec.get("taints") or ()
        ),
        not_ready="" if ready is None or ready.get("status") == "True" else _condition(ready),
        extended=None
        if allocatable is None
        else {interned(key): Quantity(str(amount)).ceil() for key, amount in extended_amounts(allocatable).items()},
        allocatable=None if allocatable is None else amounts(allocatable),
    )


def read_taint_rule(wire: Json) -> TaintRule:
    """Read a DeviceTaintRule of v1, v1beta2 or v1alpha3: what matters here is the same in all."""
    spec = wire["spec"]
    selector = spec.get("deviceSelector") or {}
    return TaintRule(
        name=text(wire["metadata"]["name"]),
        driver=text(selector.get("driver")),
        pool=text(selector.get("pool")),
        device=text(selector.get("device")),
        taint=model(DeviceTaint, spec["taint"]),
    )


def read_inventory(wire: Json) -> InventoryReport:
    """Read the status of a NodeInventory."""
    status = wire.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    bad = [conditions[name] for name in _SUMMARIES if name in conditions and conditions[name].get("status") != "True"]
    published, all_modes = conditions.get(_PUBLISHED, {}), conditions.get(_ALL_MODES, {})
    # What was left out stands behind the count of what is published.
    health = node_health({"status": {name: status.get(name) or () for name in ("faults", "rivals")}})
    left_out = text(published.get("message")).partition("; ")[2] if published.get("status") == "True" else ""
    return InventoryReport(
        problem="; ".join(f"{item['type']}: {item.get('status')}, {_condition(item)}" for item in bad),
        remark=left_out,
        modes=interned(all_modes.get("message")) if all_modes.get("status") == "False" else "",
        faults=health.faults,
        rivals=health.rivals,
    )


def _condition(wire: Json) -> str:
    parts = (text(wire.get("reason")), text(wire.get("message")))
    return ": ".join(part for part in parts if part) or f"{wire.get('type')} is {wire.get('status')}"


def model(kind: type[_Model], wire: Any) -> _Model:
    """Return a model of what the API sends, without the fields that this version does not know."""
    return kind.model_validate(wire, extra="ignore")


def interned(value: object) -> str:
    """Return a text of which there are few different ones, or that stands in many objects: it is held once."""
    return intern(text(value))


def text(value: object) -> str:
    """Return a field's text, empty for None.

    Raises:
        TypeError: It is no text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {value!r:.60}")
    return value
