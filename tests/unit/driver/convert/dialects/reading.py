"""What one container of a pod asks for, as its dialects read it."""

from __future__ import annotations

from collections.abc import Mapping

from driver.convert.amounts import device_amounts, parts
from driver.convert.dialect import Asked, PodFacts
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest
from driver.convert.settings import DEFAULT, Settings

NOTED = Outcome.NOTED
REFUSED = Outcome.REFUSED
MIB = 1024**2
GIB = 1024**3


def read(
    limits: Mapping[str, object],
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    scheduler: str = "",
    settings: Settings = DEFAULT,
) -> tuple[DeviceRequest, tuple[Finding, ...]]:
    """Return what a container with these limits asks for, and all findings."""
    facts = PodFacts(
        annotations=annotations or {},
        labels=labels or {},
        scheduler=scheduler,
        resources=frozenset(limits),
        settings=settings,
    )
    request, findings = DeviceRequest(), []
    container = {"name": "main", "resources": {"limits": dict(limits)}}
    for part in parts(device_amounts(container, ("spec", "containers", 0), settings), facts):
        pod = part.dialect.read_pod(facts)
        asked = Asked(
            dialect=part.dialect.name,
            container="main",
            amounts=part.amounts,
            pod=facts,
            hints=pod.hints,
            zeros=frozenset(held.name for held in part.held if not held.value),
        )
        reading = part.dialect.read(asked)
        findings += [*pod.findings, *reading.findings]
        request = DeviceRequest(
            gpus=request.gpus + reading.request.gpus,
            nics=request.nics + reading.request.nics,
            fpgas=request.fpgas + reading.request.fpgas,
        )
    return request, tuple(findings)


def outcomes(findings: tuple[Finding, ...]) -> dict[str, Outcome]:
    """Return the findings' outcomes by the last name in brackets of their fields, the worst of each."""
    found: dict[str, Outcome] = {}
    for finding in findings:
        name = finding.field.rpartition("[")[2].rstrip("]") if "[" in finding.field else finding.field
        if found.get(name) is not REFUSED:
            found[name] = finding.outcome
    return found


def refused(findings: tuple[Finding, ...]) -> dict[str, str]:
    """Return the texts of what is refused, by the last name in brackets of their fields."""
    return {
        finding.field.rpartition("[")[2].rstrip("]"): finding.text for finding in findings if finding.outcome is REFUSED
    }
