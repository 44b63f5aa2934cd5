"""Reads how much a container asks for of the resources that dialects know; each amount goes to one dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from driver.api.pod_templates import Steps, field_path
from driver.api.quantity import Quantity
from driver.api.validation.errors import shown
from driver.budget import check
from driver.convert.dialect import Amount, Dialect, PodFacts, Resource
from driver.convert.dialects import dialects_for
from driver.convert.settings import Settings

__all__ = ["Held", "Part", "device_amounts", "parts"]

_LONGEST_NAME: Final = 253 + 1 + 63
"""A resource's name is a DNS subdomain, a slash and a label's name (k8s.io/apimachinery, IsQualifiedName)."""
_MOST: Final = 2**63 - 1
"""What Go decodes into an int64."""
_KINDS: Final = ("limits", "requests")
_MOST_NAMES: Final = 64
"""The most resources of devices that a container's claim is made of: twice the devices that a claim may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An amount as it was written.

    Attributes:
        name: The resource.
        value: How much; 0 where it cannot be read.
        text: What was written.
        field: Its path, of the limit where there is one.
        problem: Why it cannot be read; empty where it can.
    """

    name: str
    value: int
    text: str
    field: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one dialect reads of a container.

    Attributes:
        dialect: The dialect.
        held: All that is its to read, amounts of 0 included.
        amounts: The amounts above 0 that can be read.
    """

    dialect: Dialect
    held: tuple[Held, ...]
    amounts: tuple[Amount, ...]


def device_amounts(container: Mapping[str, Any], steps: Steps, settings: Settings) -> tuple[Held, ...]:
    """Return the amounts of resources that any dialect knows, in the order in which they are written.

    Of a container that names too many, only the first is returned, with that as its problem.

    Args:
        container: A container of a pod's spec, as it was written.
        steps: Where it stands in the object.
        settings: How to convert.
    """
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return ()
    lists = {kind: amounts for kind in _KINDS if isinstance(amounts := resources.get(kind), Mapping)}
    every = dict.fromkeys(name for amounts in lists.values() for name in amounts)
    names = list(islice((name for name in every if _is_device(name, settings)), _MOST_NAMES + 1))
    if len(names) > _MOST_NAMES:
        problem = f"one of more than {_MOST_NAMES} resources of devices: divide them between containers"
        return (replace(_held(names[0], lists, (*steps, "resources")), value=0, problem=problem),)
    return tuple(_held(name, lists, (*steps, "resources")) for name in names)


def parts(held: Sequence[Held], facts: PodFacts) -> Iterator[Part]:
    """Yield what each dialect reads; no amount is read by two, and none of nothing but 0.

    Who has a name in the container that is nobody else's comes first, whatever else the pod says: a pod for HAMi may
    have a label of Koordinator's. Then come the others in the order of the dialects.

    Args:
        held: The amounts of a container.
        facts: The pod.
    """
    left = {each.name: each for each in held}
    table = _table(facts.settings)
    alone = {table.alone(name) for name in left}
    for dialect in sorted(dialects_for(facts.settings), key=lambda dialect: dialect.name not in alone):
        known = {name: found for name in left if (found := table.line(dialect, name)) is not None}
        own = any(not resource.shared for resource in known.values())
        if not known or not (own or _is_in_charge(dialect, facts)):
            continue
        taken = [(left.pop(name), resource) for name, resource in known.items()]
        amounts = tuple(
            Amount(resource=resource, name=each.name, value=each.value, text=each.text, field=each.field)
            for each, resource in taken
            if each.value
        )
        if any(each.value or each.problem for each, _ in taken):
            yield Part(dialect=dialect, held=tuple(each for each, _ in taken), amounts=amounts)


def _is_in_charge(dialect: Dialect, facts: PodFacts) -> bool:
    """Whether a pod is written for that system: for its scheduler, or with an annotation or label of its own."""
    return facts.scheduler in dialect.schedulers or any(
        True for note in dialect.notes for _ in facts.named(note.where, note.name)
    )


def _held(name: str, lists: Mapping[str, Mapping[str, Any]], steps: Steps) -> Held:
    written = {kind: amounts[name] for kind, amounts in lists.items() if name in amounts}
    kind, value = next(iter(written.items()))
    field, text = field_path((*steps, kind, name)), _text(value)
    amounts, problem = [], ""
    for each in written.values():
        amount = _whole(each)
        if isinstance(amount, str):
            return Held(name=name, value=0, text=_text(each), field=field, problem=amount)
        amounts.append(amount)
    if len(set(amounts)) > 1:
        # The API server refuses it for extended resources (k8s.io/kubernetes, ValidateContainerResourceRequirements).
        other = _text(written["requests"])
        problem = (
            f"the limit is {text} and the request {other}: devices are not overcommitted, write one amount in both"
        )
    return Held(name=name, value=0 if problem else amounts[0], text=text, field=field, problem=problem)


def _whole(value: object) -> int | str:
    """Return a whole amount, or why it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "not an amount: expected a whole number"
    if isinstance(value, int) and abs(value) > _MOST:
        return "too large a number"
    try:
        amount = Quantity(str(value))
    except ValueError as error:
        return str(error)
    if not amount.is_whole():
        return f"{_text(value)} has a fraction: devices are counted in whole numbers"
    number = amount.ceil()
    if number < 0:
        return f"{amount} is negative"
    return number if number <= _MOST else "too large a number"


def _text(value: object) -> str:
    if isinstance(value, str):
        return shown(value)[1:-1]
    if isinstance(value, int) and abs(value) > _MOST:
        return "a number of many digits"
    return str(value) if isinstance(value, int | float) or value is None else f"a {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class _Table:
    """Every dialect's resource names, for one look at each name.

    Attributes:
        exact: The lines by name.
        prefixes: Those that end in ``*``.
    """

    exact: Mapping[str, tuple[tuple[Dialect, Resource], ...]]
    prefixes: tuple[tuple[Dialect, Resource], ...]

    def lines(self, name: str) -> Iterator[tuple[Dialect, Resource]]:
        """Yield the lines that the name is on, an exact one of a dialect before its other ones."""
        yield from self.exact.get(name, ())
        for dialect, line in self.prefixes:
            if name.startswith(line.name[:-1]) and len(name) >= len(line.name):
                yield dialect, line

    def alone(self, name: str) -> str:
        """Return the dialect that alone knows a name; empty if several do."""
        names = {dialect.name for dialect, _ in self.lines(name)}
        return names.pop() if len(names) == 1 else ""

    def line(self, dialect: Dialect, name: str) -> Resource | None:
        """Return the dialect's line for the name."""
        return next((line for each, line in self.lines(name) if each.name == dialect.name), None)


@lru_cache(maxsize=16)
def _table(settings: Settings) -> _Table:
    exact: dict[str, tuple[tuple[Dialect, Resource], ...]] = {}
    prefixes: list[tuple[Dialect, Resource]] = []
    for dialect in dialects_for(settings):
        for line in dialect.resources:
            if line.name.endswith("*"):
                prefixes.append((dialect, line))
            else:
                exact[line.name] = (*exact.get(line.name, ()), (dialect, line))
    return _Table(exact, tuple(prefixes))


def _is_device(name: object, settings: Settings) -> bool:
    check()
    return (
        isinstance(name, str)
        and "/" in name
        and len(name) <= _LONGEST_NAME
        and name not in settings.left_alone
        and any(True for _ in _table(settings).lines(name))
    )
