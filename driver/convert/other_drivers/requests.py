"""Rewrites the requests of claims that were written for another DRA driver: class, selectors and amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.validation.errors import path_step, shown
from driver.convert.findings import Outcome
from driver.convert.other_drivers.expressions import NeverError, UntranslatableError, rewrite
from driver.convert.other_drivers.names import DOMAINS, DRANET, NVIDIA, equal_of
from driver.convert.other_drivers.report import Report
from driver.layout import attributes
from driver.model.devices import DeviceType

__all__ = [
    "CANDIDATES",
    "CLASSES",
    "REFUSED_CLASSES",
    "Target",
    "driver_of",
    "translate_request",
    "translate_selectors",
]


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks for.

    Attributes:
        driver: The driver that it was written for.
        kind: The kind of Rootport's devices that it asks for now.
        most_devices: How many it gets at most; 0 if that is not known.
    """

    driver: str
    kind: DeviceType
    most_devices: int = 1


CANDIDATES: Final[Mapping[str, tuple[DeviceType, ...]]] = {
    NVIDIA: (DeviceType.GPU, DeviceType.MIG),
    DRANET: (DeviceType.RDMA, DeviceType.RDMA_VF),
}
"""The kinds of devices that a driver's may be, the likelier one first."""

_OWN_CLASSES: Final[Mapping[DeviceType, str]] = {
    kind: f"{kind.value}.{DRIVER_NAME}" for kinds in CANDIDATES.values() for kind in kinds
}
CLASSES: Final[Mapping[str, tuple[str, tuple[DeviceType, ...]]]] = {
    "gpu.nvidia.com": (NVIDIA, (DeviceType.GPU,)),
    "mig.nvidia.com": (NVIDIA, (DeviceType.MIG,)),
    "dranet": (DRANET, CANDIDATES[DRANET]),
    "dranet.net": (DRANET, CANDIDATES[DRANET]),
    "dra.net": (DRANET, CANDIDATES[DRANET]),
    "mrdma.google.com": (DRANET, (DeviceType.RDMA,)),
}
"""The DeviceClasses that other drivers install or document (dranet installs none: these are the names in its examples,
and Google Kubernetes Engine's for RDMA), with the kinds of devices that may be meant."""

REFUSED_CLASSES: Final[Mapping[str, str]] = {
    "vfio.gpu.nvidia.com": "Rootport gives no GPU to a virtual machine by VFIO: NVIDIA's driver has to stay for it",
    "netdev.google.com": "Rootport offers RDMA NICs, and this class is of NICs without RDMA: dranet has to stay for it",
}
_NVIDIA_GPU: Final = f'device.attributes["{DRIVER_NAME}"].{attributes.VENDOR} == "nvidia"'


def translate_request(fields: Mapping[str, Any], path: str, report: Report) -> tuple[dict[str, Any], Target | None]:
    """Return a request's fields for Rootport, and what it asks for; None if it is for another driver that stays.

    Args:
        fields: ``exactly`` of a request, or a request of a prioritized list.
        path: Its field path.
        report: Takes the findings.
    """
    written = dict(fields)
    name = fields.get("deviceClassName")
    if not isinstance(name, str) or name in _OWN_CLASSES.values():
        return written, None  # policies may publish other drivers' names, and a claim for Rootport may read them
    if name in REFUSED_CLASSES:
        report.add(f"{path}.deviceClassName", name, Outcome.REFUSED, REFUSED_CLASSES[name])
        return written, None
    driver, kinds = CLASSES.get(name, ("", ()))
    selectors = fields.get("selectors")
    listed = selectors if isinstance(selectors, list) else []
    if not driver:
        driver = driver_of(listed)
        kinds = CANDIDATES.get(driver, ())
    if not driver:
        return written, None
    kind = translate_selectors(listed, kinds, f"{path}.selectors", written, report)
    if kind is None:
        return written, None
    if name in CLASSES:
        written["deviceClassName"] = _OWN_CLASSES[kind]
        if kind is DeviceType.GPU:
            # Rootport's class has GPUs of every vendor. First, since others lack what the next ones read.
            written["selectors"] = [{"cel": {"expression": _NVIDIA_GPU}}, *written.get("selectors", ())]
        report.add(f"{path}.deviceClassName", name, Outcome.CONVERTED, written["deviceClassName"])
        _note_nics(name, listed, path, report)
    else:
        text = (
            f"stays: it has to select Rootport's devices of type {kind}; convert the DeviceClass {shown(name)} as well"
        )
        report.add(f"{path}.deviceClassName", name, Outcome.NOTED, text)
    _translate_capacity(fields, kind, path, written, report)
    return written, Target(driver, kind, _most(fields))


def translate_selectors(
    selectors: Sequence[Any], kinds: Sequence[DeviceType], path: str, written: dict[str, Any], report: Report
) -> DeviceType | None:
    """Rewrite selectors for the first kind of devices for which they can be; None, with findings, if for none.

    Args:
        selectors: As they stand in a request or a DeviceClass.
        kinds: The kinds of devices that may be meant.
        path: Their field path.
        written: Takes the new ones as ``selectors``, or loses them where none is left.
        report: Takes the findings.
    """
    first: Report | None = None
    for kind in kinds:
        attempt = report.begin()
        kept = [
            entry
            for index, item in enumerate(selectors)
            if (entry := _selector(item, kind, f"{path}[{index}]", attempt))
        ]
        if not attempt.is_refused:
            report.take(attempt)
            written.pop("selectors", None)
            if kept:
                written["selectors"] = kept
            return kind
        first = first or attempt
    if first is not None:
        report.take(first)
    return None


def _selector(item: Any, kind: DeviceType, path: str, report: Report) -> dict[str, Any] | None:
    cel = item.get("cel") if isinstance(item, Mapping) else None
    expression = cel.get("expression") if isinstance(cel, Mapping) else None
    path = f"{path}.cel.expression"
    if not isinstance(expression, str):
        report.add(path, "", Outcome.REFUSED, "expected an expression")
        return None
    try:
        rewritten = rewrite(expression, partial(equal_of, kind=kind))
    except (UntranslatableError, NeverError) as error:
        report.add(path, expression, Outcome.REFUSED, str(error))
        return None
    for note in rewritten.notes:
        report.add(path, expression, Outcome.NOTED, note)
    if rewritten.expression != expression:
        text = rewritten.expression or "left out: the class selects just these"
        report.add(path, expression, Outcome.CONVERTED, text)
    return {"cel": {"expression": rewritten.expression}} if rewritten.expression else None


def driver_of(selectors: Sequence[Any]) -> str:
    """Return the known driver whose devices selectors are for; empty if there is none."""
    text = " ".join(
        str(item["cel"].get("expression", ""))
        for item in selectors
        if isinstance(item, Mapping) and isinstance(item.get("cel"), Mapping)
    )
    return next((domain for domain in sorted(DOMAINS) if f'"{domain}"' in text or f"'{domain}'" in text), "")


def _note_nics(name: str, selectors: Sequence[Any], path: str, report: Report) -> None:
    if CLASSES[name][0] == DRANET and name != "mrdma.google.com" and "rdma" not in str(selectors):
        text = (
            "Rootport offers RDMA NICs alone, dranet any: without a selector on dra.net/rdma it may have meant others"
        )
        report.add(f"{path}.deviceClassName", name, Outcome.NOTED, text)


def _translate_capacity(
    fields: Mapping[str, Any], kind: DeviceType, path: str, written: dict[str, Any], report: Report
) -> None:
    """Rewrite the amounts of a share: NVIDIA's driver counts memory alone, or shares of any size."""
    capacity = fields.get("capacity")
    amounts = capacity.get("requests") if isinstance(capacity, Mapping) else None
    if not isinstance(amounts, Mapping) or not amounts:
        return
    path = f"{path}.capacity.requests"
    made: dict[str, Any] = {}
    for name, amount in amounts.items():
        if name == "memory" and kind is DeviceType.GPU:
            made["memory"] = amount
            text = "the claim reserves no core, unless the GpuPolicies say so: add core to reserve some"
            report.add(f"{path}.memory", str(amount), Outcome.NOTED, text)
        else:
            text = "has no equal: a share of a GPU has core and memory, and nothing else is counted"
            report.add(f"{path}{path_step(name)}", str(amount), Outcome.REFUSED, text)
    written["capacity"] = {"requests": made}


def _most(fields: Mapping[str, Any]) -> int:
    if fields.get("allocationMode") == "All":
        return 0
    count = fields.get("count", 1)
    return count if isinstance(count, int) and count > 0 else 1
