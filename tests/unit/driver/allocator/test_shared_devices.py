"""Claims for shares of devices: the answer is the first of all combinations, also where the search is cut short."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from tests.unit.driver.allocator.builders import (
    allocator,
    claim,
    device,
    exactly,
    given,
    held,
    match,
    node,
    resource_slice,
)

Json = dict[str, Any]

D = 'device.attributes["d"]'
Part = tuple[str, str, int, int | None]
"""An alternative: its name in results, the devices' kind, how many, how much of each (None: the default)."""


def shared(name: str, size: int, *, default: int | None = None, **attributes: object) -> Json:
    policy = {} if default is None else {"requestPolicy": {"default": str(default)}}
    extra = {"allowMultipleAllocations": True, "capacity": {"size": {"value": str(size), **policy}}}
    return device(name, extra=extra, **attributes)


def amount(size: int | None) -> Json:
    return {} if size is None else {"capacity": {"requests": {"size": str(size)}}}


def random_devices(rng: random.Random) -> list[Json]:
    sizes = rng.choice([(2,), (2, 3), (1, 2, 4)])
    devices = []
    for number in range(rng.randint(2, 5)):
        attributes = {"kind": rng.choice("ab"), "g": rng.randrange(2)}
        if rng.random() < 0.2:
            devices.append(device(f"d{number}", **attributes))
        else:
            devices.append(shared(f"d{number}", rng.choice(sizes), default=rng.choice([None, None, 1]), **attributes))
    return devices


def random_requests(rng: random.Random) -> list[list[Part]]:
    sizes = rng.choice([(None,), (None, 1), (1, 2), (2,)])
    return [
        [
            (f"r{number}" + (f"/{part}" if parts > 1 else ""), rng.choice("ab"), rng.choice([1, 1, 2]), size)
            for part in range(parts)
            for size in [rng.choice(sizes)]
        ]
        for number in range(rng.randint(1, 4))
        for parts in [rng.choice([1, 1, 2])]
    ]


def as_request(parts: list[Part]) -> Json:
    wanted = [
        exactly(name.rpartition("/")[2], count, f'{D}.kind == "{kind}"', **amount(size))
        for name, kind, count, size in parts
    ]
    if len(parts) == 1:
        return wanted[0]
    alternatives = [{"name": part["name"], **part["exactly"]} for part in wanted]
    return {"name": parts[0][0].partition("/")[0], "firstAvailable": alternatives}


def takes(offer: Json, size: int | None) -> int | None:
    """How much of the device a share of it is; None where it has no such share."""
    capacity = offer.get("capacity", {}).get("size")
    if capacity is None:
        return 0 if size is None else None
    share = size if size is not None else int(capacity.get("requestPolicy", {}).get("default", capacity["value"]))
    return share if share <= int(capacity["value"]) else None


def choices(devices: list[Json], request: list[Part]) -> Iterator[list[tuple[str, Json, int]]]:
    for name, kind, count, size in request:
        fitting = [
            (name, offer, share)
            for offer in devices
            if offer["attributes"]["kind"]["string"] == kind and (share := takes(offer, size)) is not None
        ]
        yield from map(list, combinations(fitting, count))


def is_valid(taken: list[tuple[str, Json, int]], constraints: list[tuple[str, ...]], used: Counter[str]) -> bool:
    used, times = Counter(used), Counter(offer["name"] for _, offer, _ in taken)
    for _, offer, share in taken:
        used[offer["name"]] += share
        if "capacity" not in offer:
            if times[offer["name"]] > 1:
                return False
        elif used[offer["name"]] > int(offer["capacity"]["size"]["value"]):
            return False
    return all(
        len({offer["attributes"]["g"]["int"] for name, offer, _ in taken if name.partition("/")[0] in names}) <= 1
        for names in constraints
    )


@settings(max_examples=300)
@for_all(seed=st.integers(0, 2**32))
def test_the_answer_is_the_first_valid_combination(seed: int) -> None:
    rng = random.Random(seed)
    devices, requests = random_devices(rng), random_requests(rng)
    names = [f"r{number}" for number in range(len(requests))]
    constraints = [tuple(rng.sample(names, rng.randint(1, len(names)))) for _ in range(rng.choice([0, 1, 1, 2]))]
    in_use: list[Any] = []
    if "capacity" in devices[0] and rng.random() < 0.3:
        in_use = [held("d0", shareID="b9a5ad7c-6c55-4c8e-9d2e-3b3a6f6f5c11", consumedCapacity={"size": "1"})]
    used = Counter({"d0": 1} if in_use else {})

    first = next(
        (
            [f"{name}={offer['name']}" for name, offer, _ in taken]
            for chosen in product(*(list(choices(devices, request)) for request in requests))
            for taken in [[item for part in chosen for item in part]]
            if is_valid(taken, constraints, used)
        ),
        None,
    )

    asked = claim(*map(as_request, requests), constraints=[match("d/g", *of) for of in constraints])
    found = given(allocator(resource_slice(*devices), allocated=tuple(in_use)).allocate(node(), [asked]))
    assert found == (None if first is None else [first])


@pytest.mark.parametrize("size", [0, 1], ids=["takes-nothing", "takes-a-little"])
def test_a_device_of_which_some_demand_takes_little_serves_many(size: int) -> None:
    """Found after the first device failed. Were every share as large as the last one, there would be no room."""
    devices = [shared("d0", 2, kind="a", g=0), shared("d1", 6, kind="a", g=1)]
    requests = [exactly(f"r{number}", 1, **amount(size)) for number in range(3)]
    last = exactly("last", 1, **amount(3))
    asked = claim(*requests, last, constraints=[match("d/g")])
    found = given(allocator(resource_slice(*devices)).allocate(node(), [asked]))
    assert found == [["r0=d1", "r1=d1", "r2=d1", "last=d1"]]


def test_whole_shared_devices_are_given_once() -> None:
    devices = [shared("d0", 4, default=4, kind="a"), shared("d1", 4, default=4, kind="a")]
    asked = allocator(resource_slice(*devices))
    assert given(asked.allocate(node(), [claim(exactly("r"), exactly("s"))])) == [["r=d0", "s=d1"]]
    assert asked.allocate(node(), [claim(exactly("r"), exactly("s"), exactly("t"))]) is None
