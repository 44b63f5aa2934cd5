"""Problems on which a search that tries everything takes seconds to ages (kubernetes#131730): ours takes few steps."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator import SearchLimitError
from tests.unit.driver.allocator.builders import (
    allocator,
    claim,
    device,
    distinct,
    exactly,
    given,
    match,
    node,
    resource_slice,
)

Json = dict[str, Any]

D = 'device.attributes["d"]'
STEPS = 600


def alike(count: int, **groups: int) -> list[Json]:
    return [
        device(f"d{number:03}", i=number, **{name: number % size for name, size in groups.items()})
        for number in range(count)
    ]


def switches(kind: str, *sizes: int) -> list[Json]:
    """Devices of a kind, so many under each switch."""
    under = [switch for switch, size in enumerate(sizes) for _ in range(size)]
    return [device(f"{kind}-{number:02}", kind=kind, switch=switch) for number, switch in enumerate(under)]


def whole(*devices: Json) -> list[Json]:
    """Devices that could be shared, of which a request takes all, since it does not say how much."""
    size = {"size": {"value": "80", "requestPolicy": {"default": "80"}}}
    return [{**item, "allowMultipleAllocations": True, "capacity": size} for item in devices]


def ladder(count: int) -> tuple[list[Json], list[Json]]:
    """Pairs under one switch each, or else under one root."""
    requests, constraints = [], []
    for pair in range(count):
        rungs = [exactly(name, 1, f'{D}.kind == "nic"') for name in ("switch", "root")]
        requests.append(
            {"name": f"nic-{pair}", "firstAvailable": [{"name": rung["name"], **rung["exactly"]} for rung in rungs]}
        )
        requests.append(exactly(f"gpu-{pair}", 1, f'{D}.kind == "gpu"'))
        constraints.append(match("d/switch", f"gpu-{pair}", f"nic-{pair}/switch"))
        constraints.append(match("d/root", f"gpu-{pair}", f"nic-{pair}/root"))
    return requests, constraints


def halves(count: int) -> list[Json]:
    share = {"capacity": {"requests": {"size": "40"}}}
    return [exactly(f"half-{number}", 1, f"{D}.i != {number}", **share) for number in range(count)]


def pairs(count: int, *, interleaved: bool) -> tuple[list[Json], list[Json]]:
    gpus = [exactly(f"gpu-{pair}", 1, f'{D}.kind == "gpu"') for pair in range(count)]
    nics = [exactly(f"nic-{pair}", 1, f'{D}.kind == "nic"') for pair in range(count)]
    requests = [part for pair in zip(gpus, nics, strict=True) for part in pair] if interleaved else gpus + nics
    return requests, [match("d/switch", f"gpu-{pair}", f"nic-{pair}") for pair in range(count)]


def every_but_one(count: int) -> list[Json]:
    """Requests that are all different, so that none stands for another."""
    return [exactly(f"r{number}", 1, f"{D}.i != {number}") for number in range(count)]


UNDER_SWITCHES = [
    device(f"{kind}-{number}", kind=kind, switch=number, root=number // 4)
    for kind, count in (("gpu", 7), ("nic", 8))
    for number in range(count)
]
GPUS, NICS = switches("gpu", *[2] * 8), switches("nic", 3, 1, *[2] * 6)


@pytest.mark.parametrize(
    ("devices", "requests", "constraints"),
    [
        pytest.param(alike(64, g=4), [exactly("r", 17)], [match("d/g")], id="too-many-of-one-value"),
        pytest.param(alike(64, g=4), [exactly("a", 8), exactly("b", 9)], [match("d/g")], id="two-requests-together"),
        pytest.param(alike(16, g=2), every_but_one(9), [match("d/g")], id="different-requests-one-value"),
        pytest.param(alike(15), every_but_one(16), [], id="more-requests-than-devices"),
        pytest.param(alike(32, g=8), every_but_one(9), [distinct("d/g")], id="more-requests-than-values"),
        pytest.param(alike(32), [*every_but_one(8), exactly("z", 1, "false")], [], id="the-last-one-is-impossible"),
        pytest.param(alike(36, a=6, b=6), [exactly("r", 7)], [distinct("d/a"), distinct("d/b")], id="two-attributes"),
        pytest.param(
            alike(20, g=5),
            [exactly(name, 3) for name in "abcdef"],
            [match("d/g", name) for name in "abcdef"],
            id="more-groups-than-values",
        ),
        pytest.param(GPUS + NICS, *pairs(16, interleaved=False), id="pairs-in-blocks"),
        pytest.param(GPUS + NICS, *pairs(16, interleaved=True), id="pairs-in-turn"),
        pytest.param(whole(*alike(15)), every_but_one(16), [], id="more-requests-than-whole-shareable-devices"),
        pytest.param(whole(*alike(7)), halves(15), [], id="more-halves-than-there-are"),
        pytest.param(whole(*GPUS, *NICS), *pairs(16, interleaved=False), id="whole-shareable-pairs-in-blocks"),
        pytest.param(whole(*GPUS, *NICS), *pairs(16, interleaved=True), id="whole-shareable-pairs-in-turn"),
        pytest.param(whole(*UNDER_SWITCHES), *ladder(8), id="whole-shareable-ladder"),
    ],
)
def test_what_cannot_be_is_found_out_soon(devices: list[Json], requests: list[Json], constraints: list[Json]) -> None:
    asked = allocator(resource_slice(*devices), max_steps=STEPS)
    assert asked.allocate(node(), [claim(*requests, constraints=constraints)]) is None


@pytest.mark.parametrize("interleaved", [False, True], ids=["in-blocks", "in-turn"])
def test_the_most_pairs_that_there_are_are_found_soon(interleaved: bool) -> None:
    requests, constraints = pairs(15, interleaved=interleaved)
    asked = allocator(resource_slice(*GPUS, *NICS), max_steps=STEPS)
    found = given(asked.allocate(node(), [claim(*requests, constraints=constraints)]))
    assert found is not None
    assert len(set(found[0])) == 30


@pytest.mark.slow
def test_a_thousand_claims_at_once_are_not_too_deep() -> None:
    asked = allocator(resource_slice(*alike(1000)))
    claims = [claim(exactly("r"), name=f"c{number}") for number in range(1000)]
    assert len(given(asked.allocate(node(), claims)) or ()) == 1000
    assert asked.allocate(node(), [*claims, claim(exactly("r"), name="c")]) is None


def test_a_search_without_end_is_given_up() -> None:
    asked = allocator(resource_slice(*alike(8)), max_steps=3)
    with pytest.raises(SearchLimitError, match="claim team/c: gave up after 3 steps") as raised:
        asked.allocate(node(), [claim(exactly("r", 8))])
    assert raised.value.kind == "node"
