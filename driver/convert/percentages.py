"""Writes percentages in claims as prioritized lists over the sizes of a cluster's devices (:mod:`driver.ratios`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from driver.convert.findings import Conversion, Finding, Outcome, worst
from driver.ratios import NO_SIZES, Change, Sizes, rewritten

__all__ = ["spec_over_sizes", "with_sizes"]

_DIALECT: Final = "Rootport"
_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec", "spec"),
}


def with_sizes(conversion: Conversion, sizes: Sizes) -> Conversion:
    """Return a converted claim, or template, with its percentages as lists; other objects as they are.

    Args:
        conversion: What became of the object so far.
        sizes: The sizes of the cluster's devices; with none of any kind nothing is written.
    """
    data = conversion.object
    steps = _SPECS.get(str(data.get("kind")))
    status = data.get("status")
    # The spec of a claim that has devices cannot change.
    is_allocated = isinstance(status, Mapping) and bool(status.get("allocation"))
    if steps is None or sizes is NO_SIZES or conversion.outcome is Outcome.REFUSED or is_allocated:
        return conversion
    spec: Any = data
    for step in steps:
        spec = spec.get(step) if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping):
        return conversion
    written, changes = _over_sizes(spec, sizes)
    path = f"{'.'.join(steps)}.devices"
    is_changed = written is not spec or conversion.outcome is not Outcome.UNCHANGED
    findings = (*conversion.findings, *(_finding(change, path, is_changed=is_changed) for change in changes))
    for step in reversed(steps[1:]):
        written = {**data[steps[0]], step: written}
    changed = {**data, steps[0]: written} if is_changed else data
    return replace(conversion, object=changed, findings=findings, outcome=worst(findings))


def spec_over_sizes(spec: Mapping[str, Any], sizes: Sizes) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a claim's spec with its percentages as lists, and in words what became of each.

    Args:
        spec: As Rootport's converter wrote it; not changed.
        sizes: As for :func:`with_sizes`.
    """
    if sizes is NO_SIZES:
        return spec, ()
    written, changes = _over_sizes(spec, sizes)
    return written, tuple(f"{change.capacity}: {change.percent}: {change.text}" for change in changes)


def _over_sizes(spec: Mapping[str, Any], sizes: Sizes) -> tuple[Mapping[str, Any], tuple[Change, ...]]:
    devices = spec.get("devices")
    if not isinstance(devices, Mapping):
        return spec, ()
    found = rewritten(devices, sizes)
    return ({**spec, "devices": found.devices} if found.is_rewritten else spec), found.changes


def _finding(change: Change, path: str, *, is_changed: bool) -> Finding:
    outcome = Outcome.CONVERTED if change.is_rewritten else Outcome.NOTED if is_changed else Outcome.REFUSED
    return Finding(
        dialect=_DIALECT,
        field=f"{path}.{change.path}.capacity.requests[{change.capacity}]",
        value=change.percent,
        outcome=outcome,
        text=change.text if change.is_rewritten else f"stays in percent: {change.text}",
    )
