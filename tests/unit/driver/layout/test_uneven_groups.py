"""Why smaller groups come first: the figures of docs/design/layout.md, "Uneven groups".

Claims for 1, 2 and 4 GPUs come and go on a node with 3 GPUs on one side and 4 on the other; first fit, no scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.machines import gpu, node, published, value

_STEPS = 20_000

LARGER_FIRST = [0, 0, 0, 0, 1, 1, 1]
ALTERNATING = [0, 1, 0, 1, 0, 1, 0]


def mixture(sides: Sequence[int], *, constrained: bool) -> tuple[float, float]:
    """The share of claims refused, and how many sides beyond the first a claim for several GPUs got, on average.

    Args:
        sides: The side of each GPU, in the order of allocation.
        constrained: Claims for several GPUs ask for one side (matchAttribute).
    """
    draw = random.Random(1)
    free, used = list(range(len(sides))), []
    asked = refused = several = spanned = 0
    for _ in range(_STEPS):
        if used and draw.random() < 0.5:
            free = sorted(free + used.pop(draw.randrange(len(used))))
            continue
        asked += 1
        count = draw.choices([1, 2, 4], [6, 2, 2])[0]
        choices = [free]
        if constrained and count > 1:
            choices = [[other for other in free if sides[other] == sides[first]] for first in free]
        taken = next((choice[:count] for choice in choices if len(choice) >= count), None)
        if taken is None:
            refused += 1
            continue
        if count > 1:
            several += 1
            spanned += len({sides[position] for position in taken}) - 1
        used.append(taken)
        free = [position for position in free if position not in taken]
    return refused / asked, spanned / several


def ours() -> list[int]:
    """The sides in the published order."""
    devices = published(node(*(gpu(f"{bus:02x}", numa=bus // 5) for bus in range(1, 8))))
    return [int(value(device, "numaNode") or 0) for device in devices]


def test_the_published_order_has_the_smaller_group_first() -> None:
    assert ours() == [1, 1, 1, 0, 0, 0, 0]


def test_claims_that_say_what_they_need_are_refused_least_often() -> None:
    refused, _ = mixture(ours(), constrained=True)
    assert refused < mixture(ALTERNATING, constrained=True)[0]
    assert refused < mixture(LARGER_FIRST, constrained=True)[0] - 0.01


def test_claims_that_do_not_span_less_than_in_an_alternating_order_and_more_than_with_the_larger_first() -> None:
    _, spanned = mixture(ours(), constrained=False)
    assert mixture(LARGER_FIRST, constrained=False)[1] < spanned < mixture(ALTERNATING, constrained=False)[1] - 0.2
