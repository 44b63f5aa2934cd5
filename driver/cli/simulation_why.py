"""Prints why pods of a simulation have no node: each answer once, with all claims or pods that it is for."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from driver.explain.reasons import Reason
from driver.simulation import Answer, PodOutcome, Simulation
from driver.wording import plural

__all__ = ["print_why"]

_SHOWN: Final = 20
_NAMES: Final = 6
_WIDEST: Final = 100  # columns; longer lines are hard to read
_ASKS: Final = re.compile(
    r"claim [^ ]+, request [^ ]+ asks for [^;]*; |claim [^ ]+: (?=matchAttribute|distinctAttribute)"
    r"|^pod [^ ]+ (?=makes its claim|names claim)|(?<=^cannot be prepared: )claim [^ ]+ \(uid [^)]*\)(, |: )"
)
"""The beginning of an answer, which names who asks for what; what follows is the same for many."""

_COUNT: Final = re.compile(r"claim [^ ]+, request [^ ]+ asks for ((?!1 )[0-9]+ devices) ")

_NO_NODE_ASKED: Final = frozenset(
    {
        Reason.PREPARE_FAILS,
        Reason.CLAIM_MISSING,
        Reason.CLAIM_TEMPLATE_MISSING,
        Reason.CLAIM_IN_USE,
        Reason.CLAIM_ELSEWHERE,
        Reason.EXTENDED_RESOURCE_NOT_EVALUATED,
    }
)


def print_why(screen: Console, simulation: Simulation, why: Mapping[str, Answer], out: Path | None) -> None:
    """Print the reasons, each with the claims (or pods) that it holds for, and the nearest miss of the first of them.

    Args:
        screen: Where to.
        simulation: The result.
        why: The answers, by the pods' ``namespace/name``.
        out: Where the result was written; None where it was not.
    """
    pending = {outcome.key for outcome in simulation.outcomes if not outcome.done}
    alike: dict[tuple[str, str, str], list[tuple[PodOutcome, Answer]]] = {}
    for pod in simulation.pods:
        answer = why.get(pod.pod.key)
        if answer is not None:
            key = answer.reason, answer.unrecorded, _ASKS.sub("", answer.message, count=1)
            alike.setdefault(key, []).append((pod, answer))
    for (reason, unrecorded, message), members in list(alike.items())[:_SHOWN]:
        screen.print()
        names = dict.fromkeys(name for pod, _ in members for name in _names(pod, pending))
        headline = _listed(list(names))
        if reason == Reason.PREPARE_FAILS:
            _print_lines(screen, f"{headline}: {message}", indent="", style="red")
            continue
        outcome = "not known whether a node fits" if unrecorded else "no node fits"
        what = str(reason) if reason in _NO_NODE_ASKED else ": ".join(filter(None, (outcome, str(reason))))
        _print_lines(screen, f"{headline}: {what}", indent="", style="red")
        if message != "no node fits":
            counts = {found and found[1] for _, answer in members for found in [_COUNT.match(answer.message)]}
            asked_for = f"{counts.pop()} are asked for; " if len(counts) == 1 and None not in counts else ""
            doubt = f"; but {unrecorded}, so it may fit" if unrecorded else ""
            _print_lines(screen, f"{asked_for}{message}{doubt}", indent="  ")
        miss = next((answer.nearest_miss for _, answer in members if answer.nearest_miss), "")
        if miss:
            of_first = f" of {next(iter(names))}" if len(names) > 1 else ""
            _print_lines(screen, f"nearest miss{of_first}: {miss}", indent="  ", style="green")
    if len(alike) > _SHOWN:
        screen.print(f"... and {plural(len(alike) - _SHOWN, 'more reason')}; -o json shows all", style="dim")
    waiting = (pod for pod in simulation.pods if pod.node is None)
    # explain does not know what the source of a node leaves out.
    asked = next((pod for pod in waiting if why[pod.pod.key].reason and why[pod.pod.key].is_known), None)
    if asked is not None:
        named = next((key for key in asked.pod.claim_keys if key in pending), None)
        subject = f"claim {named}" if named else f"pod {asked.pod.key}"
        where = f"--from {shlex.quote(str(out))}" if out is not None else "--from DIR, with what --out DIR writes"
        screen.print(f"\nmore: rootport explain {subject} {where}", style="dim", soft_wrap=True)


def _names(pod: PodOutcome, pending: set[str]) -> list[str]:
    """Return the pod's claims that are not done; the pod itself if all are."""
    return [key for key in pod.pod.claim_keys if key in pending] or [f"pod {pod.pod.key}"]


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def _print_lines(screen: Console, text: str, *, indent: str, style: str = "") -> None:
    """Print a text in lines of the terminal's width, without breaking names, which people copy."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    width = max(min(screen.width, _WIDEST), 40)
    for line in textwrap.wrap(
        printable,
        width,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ):
        screen.print(line, style=style, soft_wrap=True)
