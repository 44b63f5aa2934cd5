"""Reads what each container of a pod asks for, in whichever dialect it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from driver.api.pod_templates import PodSpec, Steps, containers
from driver.budget import check
from driver.convert.amounts import Held, Part, device_amounts, parts
from driver.convert.claims import CONSTRAINTS, ClaimSpec, claim_lines, claim_of
from driver.convert.dialect import Asked, PodFacts, PodReading, Reading
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, Near
from driver.errors import InputError

__all__ = ["AskingContainer", "ReadContainer", "asking_containers", "is_init", "read_container"]

_SIDECAR: Final = "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingContainer:
    """A container that asks for devices.

    Attributes:
        steps: Its field.
        name: Its name.
        is_init: Whether it ends before the pod's containers start; a sidecar does not.
        parts: What each dialect reads of it.
    """

    steps: Steps
    name: str
    is_init: bool
    parts: tuple[Part, ...]

    @property
    def resources(self) -> frozenset[str]:
        """The names of the resources that a claim takes the place of."""
        return frozenset(held.name for part in self.parts for held in part.held)

    def finding(self, held: Held, dialect: str, outcome: Outcome, text: str) -> Finding:
        """Return a finding about one of its amounts."""
        return Finding(
            dialect=dialect, field=held.field, value=held.text, outcome=outcome, text=text, container=self.name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContainer:
    """What a container asks for.

    Attributes:
        container: The container.
        request: The devices.
        spans: Whether its GPUs or NICs are allocated together with those of other containers.
        claim: The claim for it alone; None where it is refused.
        findings: What was read.
    """

    container: AskingContainer
    request: DeviceRequest
    spans: bool
    claim: ClaimSpec | None
    findings: tuple[Finding, ...]


def asking_containers(pod: PodSpec, facts: PodFacts) -> Iterator[AskingContainer]:
    """Yield the containers that ask for devices in any dialect.

    Raises:
        SpentError: The budget in force (:mod:`driver.budget`) is spent.
    """
    for steps, container in containers(pod):
        check()
        held = device_amounts(container, steps, facts.settings)
        if held and (read := tuple(parts(held, facts))):
            yield AskingContainer(steps=steps, name=_name(container), is_init=is_init(steps, container), parts=read)


def is_init(steps: Steps, container: Mapping[str, Any]) -> bool:
    """Whether a container ends before the pod's containers start; a sidecar does not."""
    return steps[-2] == "initContainers" and container.get("restartPolicy") != _SIDECAR


def read_container(container: AskingContainer, facts: PodFacts, pods: Mapping[str, PodReading]) -> ReadContainer:
    """Return what a container asks for.

    Args:
        container: The container.
        facts: Its pod.
        pods: What each dialect read of the pod, by the dialect's name.
    """
    findings: list[Finding] = []
    readings: list[tuple[Part, Reading]] = []
    for part in container.parts:
        problems = [held for held in part.held if held.problem]
        name = part.dialect.name
        findings += [container.finding(held, name, Outcome.REFUSED, held.problem) for held in problems]
        if not problems:
            asked = Asked(
                dialect=name,
                container=container.name,
                amounts=part.amounts,
                pod=facts,
                hints=pods[name].hints,
                zeros=frozenset(held.name for held in part.held if not held.value),
            )
            readings.append((part, part.dialect.read(asked)))
    request = _merged(readings)
    findings += [finding for _, reading in readings for finding in reading.findings]
    findings += _two_ways(container, readings)
    claim = None
    if not any(finding.outcome is Outcome.REFUSED for finding in findings):
        part, held = container.parts[0], container.parts[0].held[0]
        try:
            claim = claim_of(request)
        except InputError as error:
            findings.append(container.finding(held, part.dialect.name, Outcome.REFUSED, str(error)))
        else:
            findings += [container.finding(held, part.dialect.name, Outcome.NOTED, note) for note in claim.notes]
            findings = [*_converted(container, request, readings, findings), *findings]
    return ReadContainer(
        container=container,
        request=request,
        spans=any(pods[part.dialect.name].spans for part, _ in readings),
        claim=claim,
        findings=_in_order(container, findings),
    )


def _merged(readings: Sequence[tuple[Part, Reading]]) -> DeviceRequest:
    requests = [reading.request for _, reading in readings]
    gpus = tuple(gpu for request in requests for gpu in request.gpus)
    nics = tuple(nic for request in requests for nic in request.nics)
    fpgas = tuple(fpga for request in requests for fpga in request.fpgas)
    near = next((request.near for request in requests if request.near is not Near.ANY), Near.ANY)
    if near is Near.ANY and gpus and nics:
        near = Near.PREFERRED  # who asks for both mostly sends from the one by the other, and it refuses nothing
    nic_each = any(request.nic_each for request in requests)
    return DeviceRequest(gpus=gpus, nics=nics, fpgas=fpgas, near=near, nic_each=nic_each)


def _two_ways(container: AskingContainer, readings: Sequence[tuple[Part, Reading]]) -> Iterator[Finding]:
    """Refuse what two systems would each give GPUs for: neither knows of the other's."""
    asking = [part for part, reading in readings if reading.request.gpus]
    for part in asking[1:]:
        text = f"the container asks for GPUs in the way of {asking[0].dialect.name} as well: write one of the two"
        yield container.finding(part.held[0], part.dialect.name, Outcome.REFUSED, text)


def _converted(
    container: AskingContainer,
    request: DeviceRequest,
    readings: Sequence[tuple[Part, Reading]],
    findings: Sequence[Finding],
) -> Iterator[Finding]:
    """Yield a finding for each amount that is converted without a note."""
    said = {finding.field for finding in findings}
    common = [line for line in claim_lines(request) if line.startswith(CONSTRAINTS)]
    for part, reading in readings:
        own = [
            line for line in claim_lines(replace(reading.request, near=Near.ANY)) if not line.startswith(CONSTRAINTS)
        ]
        text = "; ".join([*own, *common]) or "nothing"
        for held in part.held:
            if held.field not in said:
                yield container.finding(held, part.dialect.name, Outcome.CONVERTED, text)


def _in_order(container: AskingContainer, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    order = {held.field: index for index, held in enumerate(held for part in container.parts for held in part.held)}
    return tuple(sorted(findings, key=lambda finding: order.get(finding.field, len(order))))


def _name(container: Mapping[str, Any]) -> str:
    name = container.get("name")
    return name[:63] if isinstance(name, str) else ""
