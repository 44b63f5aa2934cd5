"""A change that is to be tried: what it does to the claims, and how much it takes from whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from driver.budget import check
from driver.explain.explanation import ChangeKind
from driver.explain.judge.case import NodeVerdict

__all__ = ["Change", "Effort", "Operation", "Option", "together"]

Operation = Mapping[str, Any]
"""Of a JSON Patch (RFC 6902): ``op`` is add, replace or remove."""


class Effort(IntEnum):
    """How much is given up; less is proposed first."""

    MISTAKE = 0
    """Nothing: a name or a value is written wrong."""
    LOOSER = 1
    """The same devices, a little farther apart."""
    LESS = 2
    """At least half of what is asked for."""
    OTHERS = 3
    """Somebody else has to give way, or an administrator to act."""
    GIVE_UP = 4
    """A requirement is dropped, or more than half of what is asked for."""
    UNSURE = 5
    """It cannot be tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Operations on one claim; ``place`` is its place among the case's."""

    place: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A change to claims, not tried yet.

    Attributes:
        effort: How much is given up.
        cost: How many devices or terms are; compares options of one effort.
        text: One sentence for a person.
        changes: To which claims.
        kind: Who has to act.
        commands: What to type, where a command does it.
        nodes: On which nodes it may help; none: on any.
    """

    effort: Effort
    cost: int = 1
    text: str
    changes: tuple[Change, ...]
    kind: ChangeKind = ChangeKind.CHANGE_CLAIM
    commands: tuple[str, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()


def together(options: Sequence[Option]) -> Option | None:
    """Return all of the options at once; None where they change the same."""
    changes = [change for option in options for change in option.changes]
    paths = [(change.place, str(item["path"])) for change in changes for item in change.operations]
    for index, (place, path) in enumerate(paths):
        check()
        for other_place, other in paths[index + 1 :]:
            if place == other_place and f"{path}/".startswith(f"{other}/") | f"{other}/".startswith(f"{path}/"):
                return None
    return Option(
        effort=max(option.effort for option in options),
        cost=sum(option.cost for option in options),
        text=", and ".join(option.text for option in options),
        changes=tuple(changes),
    )
