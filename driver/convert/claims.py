"""Writes the claim of what a container asks for, as the API server takes it.

GPUs that are to be near to NICs are written by :mod:`driver.pairs`, with the classes, shares and selectors of the
request put into its groups.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from driver import DRIVER_NAME
from driver.api import API_VERSION as ROOTPORT_VERSION
from driver.api.quantity import Quantity
from driver.api.resource_v1 import API_VERSION
from driver.budget import check
from driver.cel import text_literal
from driver.config.gpu_classes import class_of_strategy
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, Match, Near, NicRequest, Wanted
from driver.convert.shares import check_request, share_of
from driver.errors import InputError
from driver.layout import attributes
from driver.model.devices import DeviceType
from driver.pairs import SCOPE_ATTRIBUTES, PairsRequest, Scope, claim_spec

__all__ = ["CONSTRAINTS", "CONVERTED_LABEL", "ClaimSpec", "claim_lines", "claim_of", "template"]

CONVERTED_LABEL: Final = f"{DRIVER_NAME}/converted"
"""On every ResourceClaimTemplate that a conversion wrote."""

CONSTRAINTS: Final = "constraints: "
"""How the line of :func:`claim_lines` begins that tells what devices have in common."""

_OWN: Final = f'device.attributes["{DRIVER_NAME}"]'
_ALWAYS_THERE: Final = frozenset({attributes.VENDOR, attributes.INDEX, attributes.PROFILE})
"""What every GPU has, and every partition, of what a :class:`Wanted` may name (:mod:`driver.layout.devices`)."""
_MAX_LADDER: Final = 3
"""Groups up to which the nearest devices are asked for. On a node with too few NICs for four of them, kube-scheduler
searches for seconds (docs/user/joint-allocation.md)."""
_DIGITS: Final = 12
_STEP: Final = 10**9

Fields: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """A claim's spec, and which of its requests are for what.

    Attributes:
        spec: ``spec`` of a ResourceClaim. Not to be changed: equal requests have the same one.
        gpus: The names of the requests for GPUs, in order.
        nics: Likewise for NICs.
        fpgas: Likewise for FPGAs.
        notes: What a reader should know of it.
    """

    spec: Mapping[str, Any]
    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    fpgas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def claim_of(request: DeviceRequest) -> ClaimSpec:
    """Return the claim for a request.

    Raises:
        InputError: No claim can say that.
        SpentError: The budget in force (:mod:`driver.budget`) is spent.
    """
    request = _with_a_nic_each(request)
    check_request(request)
    notes: list[str] = []
    pairs = _pairs(request, notes)
    if pairs is None:
        return _plain(request, tuple(notes))
    return _paired(request, pairs, tuple(notes))


def template(spec: Mapping[str, Any], namespace: str = "") -> Fields:
    """Return the ResourceClaimTemplate of a spec: equal ones have one name, different ones have different names."""
    written = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    name = f"rootport-{hashlib.sha256(written.encode()).hexdigest()[:_DIGITS]}"
    metadata: Fields = {"name": name, "labels": {CONVERTED_LABEL: "true"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def claim_lines(request: DeviceRequest) -> tuple[str, ...]:
    """Return a request as a claim in words, a line for each kind of device and one for what they have in common.

    Raises:
        InputError: No claim can say that.
    """
    spec = claim_of(request)
    lines = [_line(_gpu(gpu)) for gpu in request.gpus]
    lines += [_line(_nic(nic)) for nic in _with_a_nic_each(request).nics]
    lines += [_line(_fpga(fpga)) for fpga in request.fpgas]
    pairs = _pairs(_with_a_nic_each(request), [])
    if pairs is not None:
        together = [f"all GPUs with the same {item['matchAttribute']}" for item in _together((), request.gpus[0])]
        lines.append(CONSTRAINTS + ", ".join([_nearness(pairs), *together]))
    elif constraints := spec.spec["devices"].get("constraints"):
        lines.append(f"{CONSTRAINTS}{json.dumps(constraints)}")
    return tuple(lines)


def _nearness(pairs: PairsRequest) -> str:
    """Return how near GPUs and NICs are to each other, in words: the ladder of a claim here always ends with any."""
    gpus = "each GPU" if pairs.gpus_each == 1 else f"each {pairs.gpus_each} GPUs"
    whose = "its" if pairs.gpus_each == 1 else "their"
    nics = "NIC" if pairs.nics_each == 1 else f"{pairs.nics_each} NICs"
    if pairs.scope is Scope.LADDER:
        rungs = (f"under {whose} PCIe switch", f"{whose} PCIe root", f"{whose} NUMA node", "any")
        return f"{gpus} with the nearest {nics}: {', else '.join(rungs)}"
    return f"{gpus} and {whose} {nics} with the same {SCOPE_ATTRIBUTES[pairs.scope]}"


def _plain(request: DeviceRequest, notes: tuple[str, ...]) -> ClaimSpec:
    gpus = _named([("mig" if gpu.profile else "gpu", _gpu(gpu)) for gpu in request.gpus])
    nics = _named([("nic", _nic(nic)) for nic in request.nics])
    fpgas = _named([("fpga", _fpga(fpga)) for fpga in request.fpgas])
    constraints: list[Fields] = []
    for name, gpu in zip(gpus, request.gpus, strict=True):
        constraints += _together([name], gpu)
    configured = [
        *(_gpu_config([name], gpu) for name, gpu in zip(gpus, request.gpus, strict=True)),
        *(_nic_config([name], nic) for name, nic in zip(nics, request.nics, strict=True)),
    ]
    requests = [{"name": name, "exactly": fields} for name, fields in {**gpus, **nics, **fpgas}.items()]
    return ClaimSpec(
        spec=_spec(requests, constraints, configured),
        gpus=tuple(gpus),
        nics=tuple(nics),
        fpgas=tuple(fpgas),
        notes=notes,
    )


def _paired(request: DeviceRequest, pairs: PairsRequest, notes: tuple[str, ...]) -> ClaimSpec:
    (gpu,), (nic,) = request.gpus, request.nics
    written = claim_spec(pairs).to_wire()["devices"]
    constraints: list[Fields] = list(written.get("constraints", ()))
    own: dict[str, Callable[[], Fields]] = {"gpu": lambda: _gpu(gpu), "nic": lambda: _nic(nic)}
    requests: list[Fields] = []
    for item in written["requests"]:
        fields = own[item["name"].partition("-")[0]]
        if "exactly" in item:
            requests.append({"name": item["name"], "exactly": _with_fields(item["exactly"], fields())})
        else:
            rungs = [{"name": rung["name"], **_with_fields(rung, fields())} for rung in item["firstAvailable"]]
            requests.append({"name": item["name"], "firstAvailable": rungs})
    gpus = tuple(item["name"] for item in requests if item["name"].startswith("gpu"))
    nics = tuple(item["name"] for item in requests if item["name"].startswith("nic"))
    constraints += _together(gpus, gpu)
    fpgas = _named([("fpga", _fpga(fpga)) for fpga in request.fpgas])
    requests += [{"name": name, "exactly": fields} for name, fields in fpgas.items()]
    configured = [_gpu_config(gpus, gpu), _nic_config(nics, nic)]
    return ClaimSpec(
        spec=_spec(requests, constraints, configured), gpus=gpus, nics=nics, fpgas=tuple(fpgas), notes=notes
    )


def _together(requests: Sequence[str], gpu: GpuRequest) -> list[Fields]:
    if gpu.count == 1:
        return []
    return [{"requests": list(requests), "matchAttribute": attribute} for attribute in gpu.together]


def _with_fields(item: Mapping[str, Any], own: Mapping[str, Any]) -> Fields:
    """Return a request of :mod:`driver.pairs`, of its count, with the class, the selectors and the share of ours."""
    kept = {key: item[key] for key in ("allocationMode", "count") if key in item}
    selectors = [*item.get("selectors", ()), *own.get("selectors", ())]
    fields = {key: own[key] for key in ("deviceClassName", "capacity") if key in own}
    return fields | kept | ({"selectors": selectors} if selectors else {})


def _with_a_nic_each(request: DeviceRequest) -> DeviceRequest:
    if not request.nic_each or len(request.gpus) != 1 or len(request.nics) != 1 or request.nics[0].count == 0:
        return request
    (gpu,), (nic,) = request.gpus, request.nics
    if request.near is Near.SWITCH and nic.speed is not None and nic.count < gpu.count:
        # How many GPUs have one switch is not known. So each takes what leaves room for the others, in the steps of
        # bandwidth that NICs have by default (driver.api.nic_policies).
        each = nic.speed * nic.count // gpu.count
        nic = replace(nic, bandwidth=max(each - each % _STEP, _STEP))
    return replace(request, nics=(replace(nic, count=max(gpu.count, nic.count)),), nic_each=False)


def _pairs(request: DeviceRequest, notes: list[str]) -> PairsRequest | None:
    """Return the groups that a request's GPUs and NICs are to be in; None if they come as they are."""
    if request.near is Near.ANY or not request.gpus or not request.nics:
        return None
    if len(request.gpus) > 1 or len(request.nics) > 1:
        _unpaired(request, "different kinds of them", notes)
        return None
    if request.nics[0].count == 0:
        _unpaired(request, "all NICs of a node", notes)
        return None
    gpu, nic = request.gpus[0], request.nics[0]
    nics = nic.count
    if max(gpu.count, nics) % min(gpu.count, nics):
        _unpaired(request, f"{gpu.count} GPUs and {nics} NICs, which make no equal groups", notes)
        return None
    is_ladder = request.near is Near.PREFERRED
    if is_ladder and min(gpu.count, nics) > _MAX_LADDER:
        _unpaired(request, f"more than {_MAX_LADDER} groups, which kube-scheduler searches too long", notes)
        return None
    return PairsRequest(
        gpus=gpu.count,
        nics=nics,
        scope=Scope.LADDER if is_ladder else Scope(request.near.value),
        # That they are shares decides about constraints. How large they are is the request's own to say.
        gpu_core=Quantity.of(gpu.core or 1) if gpu.is_share else None,
    )


def _unpaired(request: DeviceRequest, why: str, notes: list[str]) -> None:
    if request.near is not Near.PREFERRED:
        raise InputError(f"GPUs and NICs near to each other, but {why}: write the claim with `rootport pairs`")
    notes.append(f"the claim does not ask for NICs near to the GPUs: {why}; `rootport pairs` writes claims that do")


def _spec(requests: Sequence[Fields], constraints: Sequence[Fields], configured: Sequence[Fields | None]) -> Fields:
    devices: Fields = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    if config := [entry for entry in configured if entry is not None]:
        devices["config"] = config
    return {"devices": devices}


def _named(items: Sequence[tuple[str, Fields]]) -> dict[str, Fields]:
    named: dict[str, Fields] = {}
    for base, fields in items:
        name, number = base, 2
        while name in named:
            check()
            name, number = f"{base}-{number}", number + 1
        named[name] = fields
    return named


def _gpu(gpu: GpuRequest) -> Fields:
    selectors = [_wanted(wanted) for wanted in gpu.wanted]
    if gpu.vendor:
        selectors.insert(0, _wanted(Wanted(attribute="vendor", values=(gpu.vendor,))))
    if gpu.profile:
        profile = _wanted(Wanted(attribute="profile", values=(gpu.profile,)))
        return _fields("mig", [profile, *selectors], gpu.count, {})
    capacity = share_of(gpu)
    kind = DeviceType.GPU_RATIO if "memoryRatio" in capacity else DeviceType.GPU
    strategy = gpu.strategy if capacity and gpu.strategy else "timeSlicing"
    fields = _fields(kind, selectors, gpu.count, capacity)
    return fields | {"deviceClassName": class_of_strategy(kind, strategy)}


def _nic(nic: NicRequest) -> Fields:
    selectors = [*(_wanted(wanted) for wanted in nic.wanted), *nic.selectors]
    capacity = {} if nic.bandwidth is None else {attributes.BANDWIDTH: str(Quantity.of(nic.bandwidth))}
    if nic.bandwidth_percent is not None:
        capacity = {attributes.BANDWIDTH_RATIO: str(nic.bandwidth_percent)}
    fields = _fields("rdma-vf" if nic.is_vf else "rdma", selectors, nic.count, capacity)
    return fields | ({"deviceClassName": nic.device_class} if nic.device_class else {})


def _fpga(fpga: FpgaRequest) -> Fields:
    return _fields("fpga", [_wanted(wanted) for wanted in fpga.wanted], fpga.count, {})


def _fields(kind: str, selectors: Sequence[str], count: int, capacity: Mapping[str, str]) -> Fields:
    fields: Fields = {"deviceClassName": f"{kind}.{DRIVER_NAME}"}
    if selectors:
        fields["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    if count == 0:
        fields["allocationMode"] = "All"
    elif count > 1:
        fields |= {"allocationMode": "ExactCount", "count": count}
    if capacity:
        fields["capacity"] = {"requests": dict(capacity)}
    return fields


def _wanted(wanted: Wanted) -> str:
    """Return the selector. A device of which nobody knows the attribute never matches, whatever is excluded.

    To read an attribute that is absent is an error, which keeps the pod from every node. So the selector asks first,
    outside the negation: an unknown model may be the one that is not wanted.
    """
    attribute = f"{_OWN}.{wanted.attribute}"
    guard = "" if wanted.attribute in _ALWAYS_THERE else f"{text_literal(wanted.attribute)} in {_OWN} && "
    values = [str(value) if isinstance(value, int) else text_literal(value) for value in wanted.values]
    if wanted.match is Match.CONTAINS:
        lowered = [text_literal(str(value).lower()) for value in wanted.values]
        term = " || ".join(f"{attribute}.lowerAscii().contains({value})" for value in lowered)
        if guard and len(lowered) > 1 and not wanted.negated:
            term = f"({term})"
    elif len(values) == 1:
        return f"{guard}{attribute} {'!=' if wanted.negated else '=='} {values[0]}"
    else:
        term = f"{attribute} in [{', '.join(values)}]"
    return guard + (f"!({term})" if wanted.negated else term)


def _gpu_config(requests: Sequence[str], gpu: GpuRequest) -> Fields | None:
    if not gpu.strategy or not share_of(gpu):
        return None
    settings: Fields = {}
    if gpu.strategy == "hamiCore" and gpu.core is not None and not gpu.core_is_limited:
        settings = {"hamiCore": {"corePolicy": "disable"}}
    if gpu.strategy == "timeSlicing" and gpu.interval:
        settings = {"timeSlicing": {"interval": gpu.interval}}
    if not settings:  # the class has the strategy
        return None
    return _config(requests, {"kind": "GpuConfig", "sharing": {"strategy": gpu.strategy, **settings}})


def _nic_config(requests: Sequence[str], nic: NicRequest) -> Fields | None:
    return _config(requests, {"kind": "RdmaConfig", "interface": {"name": nic.interface}}) if nic.interface else None


def _config(requests: Sequence[str], parameters: Fields) -> Fields:
    opaque = {"driver": DRIVER_NAME, "parameters": {"apiVersion": ROOTPORT_VERSION, **parameters}}
    return {"requests": list(requests), "opaque": opaque}


def _line(fields: Mapping[str, Any]) -> str:
    parts = [f"deviceClassName: {fields['deviceClassName']}"]
    parts.append("allocationMode: All" if fields.get("allocationMode") == "All" else f"count: {fields.get('count', 1)}")
    if "capacity" in fields:
        amounts = ", ".join(f"{name}: {amount}" for name, amount in fields["capacity"]["requests"].items())
        parts.append(f"capacity.requests: {{{amounts}}}")
    parts += [f"selector {selector['cel']['expression']}" for selector in fields.get("selectors", ())]
    return ", ".join(parts)
