"""An explanation for a person: one screen of plain text, whose lines say how they may be coloured."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from driver.explain.explanation import Explanation, FunnelStep, NodeGroup, Proposal, RequestFunnel, Step
from driver.explain.reasons import UNKNOWN_REASONS, Reason
from driver.explain.tell.ranking import PLACEMENT_REASONS
from driver.wording import plural

__all__ = ["WIDTH", "Line", "Tone", "report", "report_text"]

WIDTH: Final = 80
"""Columns of a terminal, as they have been since the VT100."""

_LEAST_WIDTH: Final = 40
_FUNNELS: Final = 3
_DETAILS: Final = 3
_DETAILS_OF_SEVERAL: Final = 1
_GROUPS: Final = 4
_PROPOSALS: Final = 3
_FINDINGS: Final = 3
_NOTES: Final = 4
_TEXT_SHOWN: Final = 320  # characters: four lines; -o json has all
_DETAIL_SHOWN: Final = 155
_REASON_SHOWN: Final = 560
_COMMAND_SHOWN: Final = 600
_NAMES: Final = 3

_STEPS: Final = {
    Step.PUBLISHED: "published",
    Step.CLASS: "match the class",
    Step.SELECTOR: "match the claim's selectors",
    Step.SIZE: "are large enough",
    Step.TAINTS: "have no taint against it",
    Step.IN_USE: "are free",
    Step.ROOM: "have enough left",
    Step.COUNTERS: "are free in this mode",
}


class Tone(Enum):
    """What a line is, for whoever colours it."""

    PLAIN = "plain"
    HEADING = "heading"
    GOOD = "good"
    BAD = "bad"
    FAINT = "faint"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report."""

    text: str
    tone: Tone = Tone.PLAIN


def report_text(explanation: Explanation, *, width: int = WIDTH) -> str:
    """Return the report as plain text with a closing line end."""
    return "".join(f"{line.text}\n" for line in report(explanation, width=width))


def report(explanation: Explanation, *, width: int = WIDTH) -> tuple[Line, ...]:
    """Return the answer, why, and what would help, in about 24 to 40 lines.

    Args:
        explanation: The answer. Control characters in its texts come out as spaces.
        width: In columns, at least 40; only commands and names may be longer.
    """
    width = max(width, _LEAST_WIDTH)
    parts = (
        _answer(explanation, width),
        _filter(explanation, width),
        _groups(explanation, width),
        _proposals(explanation, width),
        _remarks(explanation, width),
    )
    lines: list[Line] = []
    for part in parts:
        block = list(part)
        if block and lines:
            lines.append(Line(""))
        lines.extend(block)
    return tuple(lines)


def _answer(explanation: Explanation, width: int) -> Iterator[Line]:
    yield from _wrapped(_headline(explanation), width, tone=Tone.GOOD if explanation.fits else Tone.BAD)
    if about := _about(explanation):
        yield from _wrapped(about, width, indent=2, tone=Tone.FAINT)
    in_groups = {group.reason for group in explanation.groups}
    first, *others = explanation.findings
    # The end of a kubelet's message is what helps.
    limit = len(first.message) if first.reason is Reason.PREPARE_FAILS else _REASON_SHOWN
    yield from _wrapped(first.message, width, indent=2, limit=limit)
    # The findings of nodes stand below, with the nodes.
    beside = [finding for finding in others if finding.reason not in in_groups or not finding.nodes]
    for finding in beside[:_FINDINGS]:
        yield from _wrapped(f"{finding.reason}: {finding.message}", width, indent=2, hang=2)
    yield from _rest(len(beside) - _FINDINGS, "finding", indent=2)


def _headline(explanation: Explanation) -> str:
    subject, reason = explanation.subject, explanation.reason
    if reason is Reason.ALLOCATED:
        return f"{subject}: allocated"
    if reason is Reason.POD_ENDED:
        return f"{explanation.pod} has ended"
    if not explanation.is_known and reason is not Reason.SEARCH_LIMIT:
        return f"{subject}{_uncertain(explanation)}: {reason}"
    if explanation.fits:
        nodes = f" on {explanation.nodes_fitting} of {_nodes(explanation.nodes)}" if explanation.nodes else ""
        return f"{subject} fits{nodes}" if reason is Reason.FITS else f"{subject}: {reason}"
    if explanation.nodes_fitting:
        have = "has" if explanation.nodes_fitting == 1 else "have"
        room = f"{explanation.nodes_fitting} of {_nodes(explanation.nodes)} {have} room"
        return f"{subject} does not fit, although {room}: {reason}"
    if not explanation.nodes_decide:
        return f"{subject}: {reason}"
    if explanation.nodes_unknown:
        looked = explanation.nodes - explanation.nodes_unknown
        none = f"on none of the {looked} that were looked at" if looked else "none was looked at"
        return f"{subject}: not known whether it fits on any of {_nodes(explanation.nodes)}, {none}: {reason}"
    return f"{subject} does not fit {_nowhere(explanation)}: {reason}"


def _nowhere(explanation: Explanation) -> str:
    return "on the only node" if explanation.nodes == 1 else f"on any of {_nodes(explanation.nodes)}"


def _uncertain(explanation: Explanation) -> str:
    """Write what is known where something was not read, or not evaluated."""
    if explanation.nodes_decide and explanation.reason not in UNKNOWN_REASONS:
        return f" does not fit {_nowhere(explanation)}, as far as is known"
    return ": not known whether it fits"


def _about(explanation: Explanation) -> str:
    """Write whose claims these are, where the subject does not show it already."""
    subject = str(explanation.subject)
    others = [str(claim) for claim in explanation.claims if str(claim) != subject]
    pod = explanation.pod if explanation.pod != explanation.subject else None
    if pod is None and not others:
        return ""
    if explanation.subject.kind == "Pod":
        return f"wants {_listed(others)}"
    together = f", together with {_listed(others)}" if others else ""
    return f"for {pod}{together}" if pod else f"together with {_listed(others)}"


def _filter(explanation: Explanation, width: int) -> Iterator[Line]:
    alike: dict[tuple[object, ...], list[RequestFunnel]] = {}
    idle = _idle(explanation.requests)
    for request in explanation.requests:
        if request in idle:
            continue
        key = (request.claim, request.device_class, request.need, request.steps)
        alike.setdefault(key, []).append(request)
    funnels = list(alike.values())
    short = [funnel for funnel in funnels if _is_short(funnel[0])]
    # With many requests those that lack devices speak; where none does by itself, the first ones.
    shown = funnels if len(funnels) <= _FUNNELS else (short or funnels)[:_FUNNELS]
    columns = f"{_nodes(_asked(explanation)):>12}{'best node':>11}"
    several_claims = len({request.claim for request in explanation.requests}) > 1
    details = _DETAILS if len(shown) == 1 else _DETAILS_OF_SEVERAL
    for funnel in shown:
        yield from _funnel(funnel, width, columns, details, several_claims=several_claims)
    for line in _idle_lines(idle, several_claims=several_claims):
        yield from _wrapped(line, width, hang=2, tone=Tone.FAINT)
    hidden = len(explanation.requests) - len(idle) - sum(map(len, shown))
    if hidden:
        enough = " with enough devices, each by itself" if len(shown) >= len(short) else ""
        yield from _wrapped(f"{plural(hidden, 'more request')}{enough} (-o json)", width, tone=Tone.FAINT)


def _idle(requests: tuple[RequestFunnel, ...]) -> list[RequestFunnel]:
    """Return the alternatives that select no device at all, where another alternative of their request does."""
    selecting = {_whole(request) for request in requests if not _selects_nothing(request)}
    return [request for request in requests if _selects_nothing(request) and _whole(request) in selecting]


def _selects_nothing(request: RequestFunnel) -> bool:
    last = request.steps[-1] if request.steps else None
    return last is not None and last.step in {Step.CLASS, Step.SELECTOR} and last.best == 0


def _whole(request: RequestFunnel) -> tuple[object, str]:
    """Return the claim and the name of the request that an alternative belongs to."""
    return request.claim, request.request.partition("/")[0]


def _idle_lines(idle: list[RequestFunnel], *, several_claims: bool) -> Iterator[str]:
    names: dict[tuple[object, str], list[str]] = {}
    for request in idle:
        names.setdefault(_whole(request), []).append(request.request.partition("/")[2])
    for (claim, request_name), alternatives in names.items():
        of = f" of {claim}" if several_claims else ""
        one = len(alternatives) == 1
        which = f"alternative{'' if one else 's'} {_listed(alternatives)}"
        yield f"Request {request_name}{of}: {which} select{'s' if one else ''} no device"


def _asked(explanation: Explanation) -> int:
    """Return of how many nodes the devices were counted: those where the pod may be, or if there are none, all."""
    closed = sum(group.count for group in explanation.groups if group.reason in PLACEMENT_REASONS)
    return explanation.nodes - closed or explanation.nodes


def _is_short(request: RequestFunnel) -> bool:
    return bool(request.steps) and request.steps[-1].best < (1 if request.need is None else request.need)


def _funnel(
    alike: list[RequestFunnel], width: int, columns: str, details: int, *, several_claims: bool
) -> Iterator[Line]:
    """Yield one table for requests that ask alike."""
    request = alike[0]
    need = "all devices" if request.need is None else plural(request.need, "device")
    names = [each.request for each in alike]
    each = "each " if len(names) > 1 else ""
    claim = f" of {request.claim}" if several_claims else ""
    title = f"Request{'s' if each else ''} {_listed(names)}{claim}: {each}{need} of class {request.device_class}"
    label = max(28, min(width - 46, 38))
    yield from _wrapped(title, width, hang=2, tone=Tone.HEADING)
    yield Line(f"  {'devices that':<{label}}{columns}", Tone.FAINT)
    needed = 1 if request.need is None else request.need
    fallen = False
    for step in request.steps:
        falls = step.best < needed and not fallen
        fallen = fallen or falls
        yield _step(step, label, tone=Tone.BAD if falls else Tone.PLAIN)
        if step.step is Step.CLASS and not falls:
            continue  # everybody knows that a GPU is no NIC
        for detail in step.details[:details]:
            yield from _wrapped(detail, width, indent=6, hang=2, tone=Tone.FAINT, limit=_DETAIL_SHOWN)
        yield from _rest(len(step.details) - details, "detail", indent=6)


def _step(step: FunnelStep, label: int, *, tone: Tone) -> Line:
    node = f"  {_clean(step.best_node)}" if step.best_node and step.best else ""
    return Line(f"  {_STEPS[step.step]:<{label}}{step.left:>12}{step.best:>11}{node}", tone)


def _groups(explanation: Explanation, width: int) -> Iterator[Line]:
    if not explanation.groups:
        return
    yield Line("Nodes", Tone.HEADING)
    if explanation.nodes_fitting:
        count = explanation.nodes_fitting
        have = "fits" if explanation.fits and count == 1 else "fit" if explanation.fits else "with room"
        yield Line(f"{count:>6}  {have}", Tone.GOOD)
    first = explanation.findings[0]
    for group in explanation.groups[:_GROUPS]:
        yield from _wrapped(f"{group.count:>6}  {group.reason}: {_examples(group)}", width, indent=0, hang=8, keep=True)
        # The deciding reason stands at the top.
        if group.message and group.message != first.message:
            yield from _wrapped(group.message, width, indent=8, tone=Tone.FAINT)
    hidden = sum(group.count for group in explanation.groups[_GROUPS:])
    if hidden:
        yield Line(f"{hidden:>6}  for other reasons (-o json)", Tone.FAINT)


def _examples(group: NodeGroup) -> str:
    names = [_clean(name) for name in group.examples[:_NAMES]]
    more = group.count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 and names else "")


def _proposals(explanation: Explanation, width: int) -> Iterator[Line]:
    shown = explanation.proposals[:_PROPOSALS]
    if not shown:
        return
    yield Line("What would help, the nearest miss first", Tone.HEADING)
    for number, proposal in enumerate(shown, start=1):
        yield from _wrapped(f"{number}. {_proposal(proposal)}", width, indent=2, hang=3, tone=Tone.GOOD)
        for command in proposal.commands:
            yield Line(f"       {_cut(_clean(command), _COMMAND_SHOWN)}", Tone.COMMAND)  # in one piece, to be copied
    yield from _rest(len(explanation.proposals) - _PROPOSALS, "proposal", indent=2)
    if any(proposal.patches for proposal in shown):
        yield from _wrapped("-o json has the changes to claims as JSON patches", width, indent=2, tone=Tone.FAINT)


def _proposal(proposal: Proposal) -> str:
    text = proposal.text.rstrip(".")
    text = text[:1].upper() + text[1:]
    if not proposal.verified:
        return f"{text} (not tried)"
    return f"{text}; fits on node {proposal.node} then" if proposal.node else f"{text}; fits then"


def _remarks(explanation: Explanation, width: int) -> Iterator[Line]:
    if explanation.scheduler_message:
        message = f"kube-scheduler says: {explanation.scheduler_message}"
        yield from _wrapped(message, width, hang=2, tone=Tone.FAINT, limit=_DETAIL_SHOWN)
    for note in explanation.notes[:_NOTES]:
        yield from _wrapped(f"note: {note}", width, hang=2, tone=Tone.FAINT)
    yield from _rest(len(explanation.notes) - _NOTES, "note")


def _rest(count: int, what: str, *, indent: int = 0) -> Iterator[Line]:
    if count > 0:
        yield Line(f"{' ' * indent}… {plural(count, f'more {what}')} (-o json)", Tone.FAINT)


def _wrapped(
    text: str,
    width: int,
    *,
    indent: int = 0,
    hang: int = 0,
    tone: Tone = Tone.PLAIN,
    keep: bool = False,
    limit: int = _TEXT_SHOWN,
) -> Iterator[Line]:
    """Wrap the text, cut to a number of characters, into lines of that width; ``keep`` keeps its leading spaces."""
    cleaned = _cut(_clean(text, keep=keep), limit)
    lines = textwrap.wrap(
        cleaned,
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,  # a name is copied from here
        break_on_hyphens=False,
    )
    yield from (Line(line, tone) for line in lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _clean(text: str, *, keep: bool = False) -> str:
    """Remove what a terminal would act on, which a selector or a driver's message may hold."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.rstrip() if keep else " ".join(printable.split())


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def _nodes(count: int) -> str:
    return plural(count, "node")
