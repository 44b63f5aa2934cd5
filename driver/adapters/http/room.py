"""Whose connection makes room for others, when there are too many or too much is kept in memory for them. Pure.

The API server, the kubelet and Prometheus send what they have to say within milliseconds: theirs is not the oldest, and
they do not have the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from driver.adapters.http.connection import Connection, Phase

__all__ = ["in_excess", "oldest_of_the_most"]

# Whose client has to act, or whose request nobody has begun to work on.
_MAY_BE_CUT: Final = frozenset({Phase.READING, Phase.PAUSED, Phase.QUEUED, Phase.WRITING, Phase.LINGERING})


def oldest_of_the_most(connections: Collection[Connection]) -> Connection | None:
    """The oldest of these, of the source that has the most of them; None where none can be cut."""
    counts = Counter(connection.source for connection in connections)

    def order(each: Connection) -> tuple[int, bool, bool, float]:
        is_answered, is_queued = each.phase is Phase.LINGERING, each.phase is Phase.QUEUED
        return (-counts[each.source], not is_answered, is_queued, each.began)

    return min((each for each in connections if each.phase in _MAY_BE_CUT), key=order, default=None)


def in_excess(connections: Collection[Connection], limit: int, *, spared: Connection) -> tuple[Connection, ...]:
    """Which connections are to be cut so that what is kept in memory is within its limit, as far as that goes.

    Args:
        connections: All that are open.
        limit: In bytes.
        spared: Is not among them: what it has has just come, or was just made for it.
    """
    weights = {connection: connection.weight for connection in connections}
    excess = sum(weights.values()) - limit
    if excess <= 0:
        return ()
    of_source: Counter[str] = Counter()
    for connection, weight in weights.items():
        of_source[connection.source] += weight
    left = {each for each, weight in weights.items() if weight and each is not spared and each.phase in _MAY_BE_CUT}
    victims: list[Connection] = []
    while excess > 0 and left:
        victim = min(left, key=lambda each: (-of_source[each.source], each.began))
        left.remove(victim)
        excess -= weights[victim]
        of_source[victim.source] -= weights[victim]
        victims.append(victim)
    return tuple(victims)
