"""Prints where ``rootport place`` would put pods, as tables or as JSON."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from driver.cli.columns import Cell, Columns
from driver.explain.known.cluster import PodState
from driver.placement.decision import Decision, Placement
from driver.placement.score import Term
from driver.placement.telling import figure_text
from driver.wording import plural

__all__ = ["Placed", "print_placed", "to_wire"]

_WIDEST: Final = 160
_NARROWEST: Final = 20
_GAP: Final = 2
_NONE: Final = figure_text(0)
_LABEL: Final = "SCORE: LESS IS BETTER"


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod, and where it would go.

    Attributes:
        pod: The pod.
        decision: What was decided.
        places: The best places, the first one that of the decision.
    """

    pod: PodState
    decision: Decision
    places: tuple[Placement, ...]


def print_placed(placed: Sequence[Placed], *, policy: str) -> None:
    """Print a table for each pod, and how many have a place."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for item in placed:
        for line in _lines(item, width):
            click.echo(line)
        click.echo()
    fit = sum(item.decision.chosen is not None for item in placed)
    text = f"{fit} of {plural(len(placed), 'pod')} would be placed by policy {policy}; nothing was changed"
    click.echo(click.style(text, bold=True))


def _lines(item: Placed, width: int) -> Iterator[str]:
    decision = item.decision
    where = f"node {decision.chosen.node}" if decision.chosen is not None else "no node"
    yield click.style(f"pod {item.pod.key}: {where}", bold=True, fg="green" if decision.chosen is not None else "red")
    yield from textwrap.wrap(_clean(decision.why), width, initial_indent="  ", subsequent_indent="  ")
    if not item.places:
        return
    titles = [f"{number}: {place.node}" for number, place in enumerate(item.places, start=1)]
    shown_names = [_term_name(term) for place in item.places for term in place.score.terms if _figure(term) != _NONE]
    label = max(map(len, [_LABEL, *shown_names]))
    each = max(_NARROWEST, *map(len, titles)) + _GAP
    at_once = max(1, (width - label) // each)
    for start in range(0, len(titles), at_once):
        shown = slice(start, start + at_once)
        yield ""
        yield from _table(item.places[shown], titles[shown], width)


def _table(places: Sequence[Placement], titles: Sequence[str], width: int) -> Iterator[str]:
    """Lay out places side by side: a line for each figure of their scores, and one with the devices."""
    figures = [{_term_name(term): _figure(term) for term in place.score.terms} for place in places]
    names = dict.fromkeys(name for of_place in figures for name, figure in of_place.items() if figure != _NONE)
    rows = [[Cell(name), *[Cell(of_place.get(name, _NONE)) for of_place in figures]] for name in names]
    rows.append([Cell("devices"), *[Cell(_devices(place)) for place in places]])
    columns = Columns([_LABEL, *titles], rows, flexible=range(1, len(titles) + 1), left=[0], width=width)
    yield from columns.heading()
    for row in rows:
        yield from columns.row(row)


def _figure(term: Term) -> str:
    return figure_text(term.value)


def _term_name(term: Term) -> str:
    return f"{term.name}, {term.unit}" if term.unit else term.name


def _devices(place: Placement) -> str:
    """Write the devices of all claims: ``gpu-0001-00-00-0 (core 50), rdma-0101-00-00-0``."""
    texts = []
    for result in place.results:
        for device in result.devices.results:
            amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(device.consumed_capacity.items()))
            texts.append(f"{device.device} ({amounts})" if amounts else device.device)
    return ", ".join(texts)


def to_wire(placed: Sequence[Placed], *, policy: str, managed_only: bool, notes: Sequence[str]) -> dict[str, Any]:
    """Return the answer as JSON types.

    Args:
        placed: The pods.
        policy: By which they were placed.
        managed_only: Whether only managed nodes counted.
        notes: What the reader should know.
    """
    return {
        "policy": policy,
        "nodes": "managed" if managed_only else "all",
        "pods": [_pod(item) for item in placed],
        "notes": list(notes),
    }


def _pod(item: Placed) -> dict[str, Any]:
    decision = item.decision
    return {
        "namespace": item.pod.namespace,
        "name": item.pod.name,
        "why": decision.why,
        "chosen": None if decision.chosen is None else _place(decision, decision.chosen),
        "runnerUp": None if decision.runner_up is None else _place(decision, decision.runner_up),
        "ranked": [_place(decision, place) for place in item.places],
    }


def _place(decision: Decision, place: Placement) -> dict[str, Any]:
    return {
        "node": place.node,
        "score": [{"name": term.name, "value": term.value, "unit": term.unit} for term in place.score.terms],
        "claims": [
            {"namespace": claim.namespace, "name": claim.name, "allocation": result.to_wire()}
            for claim, result in zip(decision.claims, place.results, strict=True)
        ],
    }


def _clean(text: str) -> str:
    """Return a text without what a terminal would act on."""
    return "".join(char if char.isprintable() else " " for char in text)
