"""Writes which term of a selector leaves devices out, with the values that it saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from driver.allocator.errors import CapacityError
from driver.allocator.pools import PooledDevice
from driver.allocator.selection import SelectionFailure
from driver.budget import check
from driver.cel import CelEvaluationError, CelLimitError
from driver.cel.terms import ABSENT, compile_terms
from driver.errors import InputError
from driver.explain.judge.device_filter import FilteredDevices
from driver.explain.judge.evaluation import NodeEvaluation
from driver.explain.known.vocabulary import OWN_ATTRIBUTES, OWN_CAPACITIES, suggest
from driver.wording import listed, plural, short

__all__ = ["Refused", "error_text", "refusal_lines", "refusals", "refused_by"]

Refused = tuple[str, str, frozenset[str]]
"""Why a term has no answer (empty where it is false), the values that it saw, attributes that may have been meant."""

_TERM: Final = 120
_VALUES: Final = 3
_MOST_DEVICES: Final = 4096
_COMPILING_S: Final = 20e-6  # a character, with each term by itself


def refusals(evaluation: NodeEvaluation, filtered: FilteredDevices, *, by_class: bool) -> tuple[str, ...]:
    """Return which terms are false for how many devices of a node, and what these have; most devices first.

    Args:
        evaluation: The node.
        filtered: The demand.
        by_class: What the class's selectors leave out; otherwise what the request's own do.
    """
    return refusal_lines(dict(refused_by(evaluation, filtered, by_class=by_class)))


def refused_by(
    evaluation: NodeEvaluation, filtered: FilteredDevices, *, by_class: bool
) -> Iterator[tuple[str, list[Refused]]]:
    """Yield each term with its answers for the devices that it leaves out."""
    demand = filtered.demand
    found: defaultdict[str, list[Refused]] = defaultdict(list)
    count = 0
    for device in _asked(evaluation, filtered, by_class=by_class):
        count += 1
        if count > _MOST_DEVICES:
            break
        for expression in demand.class_selectors if by_class else demand.selectors:
            check(len(expression) * _COMPILING_S)
            try:
                answer = compile_terms(expression, stored=True).first_false(device.id.driver, device.device)
            except InputError:
                break
            if answer is None or not answer.is_known:
                continue
            shown = ", ".join(f"{name} {value}" for name, value in answer.values)
            missing = frozenset(name for name, value in answer.values if value == ABSENT)
            near = frozenset(filter(None, (_near(device, name) for name in missing)))
            found[answer.text].append((answer.error, shown, near))
            break
    yield from found.items()


def refusal_lines(found: dict[str, list[Refused]]) -> tuple[str, ...]:
    """Return a line for each term, most devices first."""
    lines = []
    for text, devices in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        counts: dict[str, int] = {}
        for _, shown, _ in devices:
            counts[shown] = counts.get(shown, 0) + 1
        values = sorted((shown for shown in counts if shown), key=lambda shown: (-counts[shown], shown))
        what = "other value" if len(values) == _VALUES + 1 else "other values"
        have = f", which have {listed(values, shown=_VALUES, what=what)}" if values else ""
        near = sorted({name for _, _, names in devices for name in names})
        hint = f" (did you mean {listed(near)}?)" if near else ""
        verb = "has no answer" if devices[0][0] else "is false"
        lines.append(f"{short(text, _TERM)} {verb} for {plural(len(devices), 'device')}{have}{hint}")
    return tuple(lines)


def error_text(evaluation: NodeEvaluation, filtered: FilteredDevices) -> str:
    """Write which selector has no answer for which device."""
    device, failure = filtered.failures[0]
    name = f"device {device.id.device} of node {evaluation.scene.view.node.metadata.name}"
    if isinstance(failure, CapacityError):
        return f"what is asked of {name} cannot be reckoned: {failure.message} (kube-scheduler stops at such an error)"
    if not isinstance(failure, SelectionFailure):
        return f"the node selector of {name} is invalid: {failure}"
    expressions = filtered.demand.class_selectors if failure.by_class else filtered.demand.selectors
    expression = expressions[failure.index]
    owner = f"the selector of class {filtered.demand.device_class}" if failure.by_class else "its selector"
    if isinstance(failure.error, CelLimitError):
        return f"{owner} is not known for {name}: {short(failure.error.problem)}"
    try:
        answer = compile_terms(expression, stored=True).first_false(device.id.driver, device.device)
    except InputError as error:
        return f"{owner} is no valid CEL: {short(error.message)}"
    text = answer.text if answer is not None else expression
    missing = [value_name for value_name, value in answer.values if value == ABSENT] if answer is not None else []
    near = [meant for value_name in missing if (meant := _near(device, value_name)) is not None]
    did_you = f"; did you mean {listed(near)}?" if near else ""
    why, advice = f"which has no {listed(missing)}", f"; ask for what may be absent with has() or orValue(){did_you}"
    if not missing:
        stop = failure.error
        why, advice = short(stop.problem if isinstance(stop, CelEvaluationError) else stop.message), ""
    return (
        f"{owner} ends with an error for {name}, {why}: {short(text, _TERM)} (kube-scheduler stops at such an"
        f" error{advice})"
    )


def _asked(evaluation: NodeEvaluation, filtered: FilteredDevices, *, by_class: bool) -> Iterator[PooledDevice]:
    """Yield the devices for which the class's selectors are evaluated, or the request's own."""
    of_class = replace(filtered.demand, selectors=())
    for part in evaluation.scene.view.slices:
        if by_class:
            yield from part.devices
            continue
        for place, failure in evaluation.scene.selections.of(of_class, part):
            if failure is None:
                yield part.devices[place]


def _near(device: PooledDevice, name: str) -> str | None:
    """Return an attribute of the device that may have been meant."""
    known = {
        text if "/" in text else f"{device.id.driver}/{text}"
        for text in (*device.device.attributes, *device.device.capacity)
    }
    if name in known or name in OWN_ATTRIBUTES or name in OWN_CAPACITIES:
        return None  # what other devices have is meant as it is written
    meant = suggest(name, known)
    return meant if meant != name else None
