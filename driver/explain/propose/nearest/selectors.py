"""Write a CEL selector so that devices pass it: the value that there is, no term that fails, or no selector."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from driver.api.quantity import binary_spelling
from driver.budget import check
from driver.cel.errors import CelCompileError
from driver.cel.reads import Read
from driver.cel.terms import ABSENT, Terms, compile_terms
from driver.explain.explanation import Step
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.propose.nearest.edits import drop, put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch
from driver.ratios import OF_A_SIZE
from driver.spelling import unlikeness
from driver.wording import short

__all__ = ["other_selectors"]

_NODES: Final = 4
_MOST_SELECTORS: Final = 8
_MOST_TERMS: Final = 8
_MOST_VALUES: Final = 3
_MOST_COMPARED: Final = 32
_LITERAL: Final = re.compile(r"""(?<![\w\[rRbB])("[^"\\]*"|'[^'\\]*')(?!\])""")
_NUMBER: Final = re.compile(r"""(?<![\w."'])[0-9]+(?![\w."'])""")
_SHOWN: Final = 100


@dataclass(slots=True)
class _Failed:
    """What keeps devices of the class from a request: by term, how often, and the values that were seen."""

    terms: Terms
    seen: defaultdict[int, Counter[tuple[tuple[str, str], ...]]] = field(default_factory=lambda: defaultdict(Counter))
    errors: int = 0


def other_selectors(search: ProposalSearch, vocabulary: Vocabulary) -> Iterator[Option]:
    """Yield options for each selector, in all requests that have it."""
    entries: defaultdict[str, list[tuple[DemandEntry, int]]] = defaultdict(list)
    for entry in search.entries:
        if _is_of_sizes(entry):
            continue  # another alternative is for devices of another size
        for index, expression in enumerate(entry.demand.selectors):
            entries[expression].append((entry, index))
    for expression, places in list(entries.items())[:_MOST_SELECTORS]:
        failed = _failed(search, expression, places[0][0])
        if failed is not None:
            yield from _rewritten(failed, places, vocabulary)
    for entry in search.entries:
        if len(entry.demand.selectors) > 1:
            yield Option(
                effort=Effort.GIVE_UP,
                cost=4 * len(entry.demand.selectors),
                text=f"leave out all selectors of request {entry.demand.name}",
                changes=(Change(place=entry.claim, operations=(drop(*entry.path, "selectors"),)),),
            )


def _is_of_sizes(entry: DemandEntry) -> bool:
    """Whether an alternative stands for a percentage of devices of one size (:mod:`driver.ratios`)."""
    return OF_A_SIZE in entry.demand.name.partition("/")[2]


def _failed(search: ProposalSearch, expression: str, entry: DemandEntry) -> _Failed | None:
    """Return the terms at which the devices near a fit fail; None where none fails, or it is no CEL."""
    try:
        terms = compile_terms(expression, stored=True)
    except CelCompileError:
        return None
    failed = _Failed(terms)
    for verdict in search.nearest(_NODES, lambda item: -search.after(item, entry, Step.CLASS)):
        for device in search.of_class(search.view(verdict), entry.demand):
            check()
            answer = terms.first_false(device.id.driver, device.device)
            if answer is not None and answer.is_known:
                failed.errors += bool(answer.error)
                if answer.index is not None:
                    failed.seen[answer.index][answer.values] += 1
    return failed if failed.seen or failed.errors else None


def _rewritten(failed: _Failed, places: list[tuple[DemandEntry, int]], vocabulary: Vocabulary) -> Iterator[Option]:
    terms = failed.terms
    if failed.errors:
        guarded = _guarded(terms)
        if guarded != terms.expression:
            text = f"ask only devices that have the attribute: {short(guarded, _SHOWN)}"
            yield _option(places, guarded, text, Effort.MISTAKE, 1)
    for index in sorted(failed.seen)[:_MOST_TERMS]:
        term = terms.terms[index]
        renamed = _renamed(term.text, term.reads or (), vocabulary)
        if renamed is not None:
            text = f"write {short(renamed, _SHOWN)} instead of {short(term.text, _SHOWN)}"
            yield _option(places, terms.replaced(index, renamed), text, Effort.MISTAKE, 1)
        for other, is_near in _other_values(term.text, term.reads or (), failed.seen[index], vocabulary):
            text = f"ask for {short(other, _SHOWN)} instead of {short(term.text, _SHOWN)}"
            effort = Effort.MISTAKE if is_near else Effort.GIVE_UP
            yield _option(places, terms.replaced(index, other), text, effort, 1)
        if len(terms.terms) > 1:
            text = f"leave out the term {short(term.text, _SHOWN)}"
            yield _option(places, terms.without(index), text, Effort.GIVE_UP, 2)
    operations = tuple(
        Change(
            place=entry.claim,
            operations=(
                drop(*entry.path, "selectors", index)
                if len(entry.demand.selectors) > 1
                else drop(*entry.path, "selectors"),
            ),
        )
        for entry, index in places
    )
    text = f"leave out the selector {short(terms.expression, _SHOWN)} of {_requests(places)}"
    yield Option(effort=Effort.GIVE_UP, cost=2 + len(terms.terms), text=text, changes=operations)


def _option(places: list[tuple[DemandEntry, int]], expression: str, text: str, effort: Effort, cost: int) -> Option:
    return Option(
        effort=effort,
        cost=cost,
        text=f"{text} in {_requests(places)}",
        changes=tuple(
            Change(
                place=entry.claim, operations=(put(expression, *entry.path, "selectors", index, "cel", "expression"),)
            )
            for entry, index in places
        ),
    )


def _guarded(terms: Terms) -> str:
    """Return the expression, false instead of an error for devices without an attribute that it reads."""
    reads = dict.fromkeys(read for term in terms.terms for read in term.reads or () if read.domain)
    guards = [f'has(device.{read.part}["{read.domain}"].{read.id})' for read in reads]
    return " && ".join([*guards, f"({terms.expression})"]) if guards else terms.expression


def _renamed(text: str, reads: tuple[Read, ...], vocabulary: Vocabulary) -> str | None:
    """Return the term with the names that were meant; None where all are known."""
    changed = text
    for read in reads:
        if read.part == "attributes":
            meant = vocabulary.suggest_attribute(read.name)
        elif read.part == "capacity":
            meant = vocabulary.suggest_capacity(read.name)
        else:
            continue
        if meant is None:
            continue
        domain, _, name = meant.partition("/")
        # Names are identifiers, domains DNS names: nothing in them means something to re.sub.
        changed = re.sub(rf"""(?<=[.\["'])({re.escape(read.id)})(?![\w])""", name, changed)
        if domain and domain != read.domain:
            changed = re.sub(rf"""(["']){re.escape(read.domain)}\1""", f'"{domain}"', changed)
    return changed if changed != text else None


def _other_values(
    text: str, reads: tuple[Read, ...], seen: Counter[tuple[tuple[str, str], ...]], vocabulary: Vocabulary
) -> Iterator[tuple[str, bool]]:
    """Yield the term with values that devices have: (term, whether the value is near the one that was asked for).

    Only for a term that reads one value and compares it with one literal: of others it is not known what is meant.
    """
    found = list(_LITERAL.finditer(text)) or list(_NUMBER.finditer(text))
    # What stands in for a value that is absent is none that devices have.
    literals = [item for item in found if not text[: item.start()].rstrip().endswith("orValue(")]
    if len(reads) != 1 or len(literals) != 1:
        return
    literal = literals[0]
    shown = literal.group()
    asked = shown[1:-1] if shown[0] in "\"'" else shown
    had = Counter({pairs[0][1]: count for pairs, count in seen.items() if len(pairs) == 1})
    near = vocabulary.suggest_value(reads[0].name, asked) if reads[0].part == "attributes" else None
    if shown != asked and text[: literal.start()].rstrip().endswith("quantity("):
        near = binary_spelling(asked) or near
    values = [near] if near is not None else []
    # Of the others the one that reads most like it: "3g.40gb" rather than "1g.10gb" instead of "7g.80gb".
    there = [_unquoted(value) for value, _ in had.most_common(_MOST_COMPARED) if value != ABSENT]
    values += sorted(there, key=partial(unlikeness, asked))
    for value in list(dict.fromkeys(values))[:_MOST_VALUES]:
        written = json.dumps(value, ensure_ascii=False) if shown[0] in "\"'" else value
        yield text[: literal.start()] + written + text[literal.end() :], value == near


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:
            return value
    return value


def _requests(places: list[tuple[DemandEntry, int]]) -> str:
    names = list(dict.fromkeys(entry.demand.name for entry, _ in places))
    return f"request {names[0]}" if len(names) == 1 else f"requests {', '.join(names)}"
