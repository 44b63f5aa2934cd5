"""What the stages ``shares`` and ``lists`` add to random problems: sizes, shares, counters, taints and so on."""

from __future__ import annotations

import random
from typing import Any, Final

__all__ = ["LATER_FLAVOURS", "add_counters", "dress_device", "dress_request", "dress_result", "stage_of"]

Json = dict[str, Any]

LATER_FLAVOURS: Final = ("shares", "counters", "taints", "prioritized", "binding", "mixed", "lists", "ranges")

_POLICIES: Final[tuple[Json, ...]] = (
    {"default": "10Gi", "validRange": {"min": "5Gi", "max": "60Gi", "step": "5Gi"}},
    {"default": "20Gi", "validRange": {"min": "10Gi"}},
    {"default": "4Gi", "validValues": ["4Gi", "8Gi", "30Gi"]},
    {"default": "1Gi"},
)
_RANGES: Final[tuple[Json, ...]] = (
    {"default": "500m", "validRange": {"min": "250m", "max": "64", "step": "250m"}},
    {"default": "1", "validRange": {"min": "1", "step": "1"}},
    {"default": "10", "validRange": {"min": "10", "max": "90", "step": "10"}},
    {"default": "100u", "validRange": {"min": "100u", "step": "100u"}},
)
_AMOUNTS: Final = ("1", "600m", "1500m", "12500m", "40", "95", "1500u", "9223372036854775807")


def stage_of(flavour: str) -> str:
    """The stage of a flavour's problems."""
    if flavour in LATER_FLAVOURS:
        return "lists" if flavour == "lists" else "shares"
    return "core"


def _has(flavour: str, *wanted: str) -> bool:
    return flavour in wanted or flavour == "mixed"


def dress_device(rng: random.Random, flavour: str, device: Json) -> None:
    """Add what a later stage knows of a device."""
    if _has(flavour, "shares", "counters") and rng.random() < 0.6:
        memory: Json = {"value": rng.choice(("40Gi", "80Gi"))}
        if rng.random() < 0.7:
            device["allowMultipleAllocations"] = True
            if rng.random() < 0.7:
                memory["requestPolicy"] = rng.choice(_POLICIES)
        device["capacity"] = {"memory": memory}
        if rng.random() < 0.3:
            device["capacity"]["core"] = {"value": "100"}
    if _has(flavour, "counters") and rng.random() < 0.8:
        amounts = {name: {"value": str(rng.choice((1, 2, 3)))} for name in rng.sample(("a", "b"), rng.choice((1, 2)))}
        device["consumesCounters"] = [{"counterSet": rng.choice(("set-0", "set-1")), "counters": amounts}]
    if _has(flavour, "taints") and rng.random() < 0.5:
        effects = ("NoSchedule", "NoExecute", "None")
        keys = rng.sample(("hot", "old"), rng.choice((1, 1, 2)))
        device["taints"] = [{"key": key, "value": rng.choice("xy"), "effect": rng.choice(effects)} for key in keys]
    if _has(flavour, "binding") and rng.random() < 0.3:
        device["bindingConditions"] = ["example.com/ready"]
        device["bindingFailureConditions"] = ["example.com/failed"]
        if rng.random() < 0.5:
            device["bindsToNode"] = True
    if flavour == "ranges":
        device["allowMultipleAllocations"] = rng.random() < 0.8
        device["capacity"] = {"core": {"value": "100"}}
        if device["allowMultipleAllocations"] and rng.random() < 0.9:
            device["capacity"]["core"]["requestPolicy"] = rng.choice(_RANGES)
    if flavour == "lists":
        numbers = sorted(rng.sample((0, 1, 2, 3), rng.choice((1, 2, 3))))
        device["attributes"]["g"] = {"ints": numbers} if rng.random() < 0.7 else {"int": numbers[0]}
        device["attributes"]["topology.example.com/rack"] = {"strings": rng.sample(("r1", "r2", "r3"), 2)}


def add_counters(rng: random.Random, flavour: str, slices: list[Json]) -> None:
    """Give pools whose devices consume counters a slice that has them."""
    if not _has(flavour, "counters"):
        return
    pools: dict[tuple[str, str], list[Json]] = {}
    for item in slices:
        pools.setdefault((item["spec"]["driver"], item["spec"]["pool"]["name"]), []).append(item)
    for (driver, name), members in pools.items():
        for item in members:
            item["spec"]["pool"]["resourceSliceCount"] = len(members) + 1
        pool = dict(members[0]["spec"]["pool"])
        sets = [
            {"name": f"set-{number}", "counters": {name: {"value": str(rng.choice((2, 4, 6)))} for name in "ab"}}
            for number in range(2 if rng.random() < 0.95 else 1)
        ]
        where = {key: members[0]["spec"][key] for key in ("nodeName", "allNodes") if key in members[0]["spec"]}
        spec = {"driver": driver, "pool": pool, "sharedCounters": sets, **(where or {"allNodes": True})}
        slices.append({"metadata": {"name": f"counters-{driver}-{name}"}, "spec": spec})


def dress_request(rng: random.Random, flavour: str, request: Json) -> None:
    """Add what a later stage knows of a request; it may become one with alternatives."""
    exactly = request["exactly"]
    _dress(rng, flavour, exactly)
    if _has(flavour, "prioritized") and rng.random() < 0.5:
        request["firstAvailable"] = []
        for number in range(rng.choice((1, 2, 3))):
            alternative = {key: value for key, value in exactly.items() if key != "adminAccess"} | {
                "name": f"s{number}"
            }
            if rng.random() < 0.6 and alternative.get("allocationMode") != "All":
                alternative["count"] = rng.choice((1, 2, 4))
            if rng.random() < 0.4:
                alternative["deviceClassName"] = rng.choice(("gpu", "nic", "any"))
                alternative.pop("selectors", None)
            request["firstAvailable"].append(alternative)
        del request["exactly"]


def _dress(rng: random.Random, flavour: str, exactly: Json) -> None:
    if _has(flavour, "shares", "counters") and rng.random() < 0.6:
        requests = {"memory": rng.choice(("1Gi", "6Gi", "20Gi", "40Gi", "100Gi"))}
        if rng.random() < 0.2:
            requests["core"] = "30"
        exactly["capacity"] = {"requests": requests}
    if flavour == "ranges" and rng.random() < 0.8:
        exactly["capacity"] = {"requests": {"core": rng.choice(_AMOUNTS if rng.random() < 0.3 else _AMOUNTS[:-2])}}
    if _has(flavour, "taints") and rng.random() < 0.6:
        toleration: Json = {"operator": "Exists"} if rng.random() < 0.4 else {"key": "hot", "value": "x"}
        if rng.random() < 0.3:
            toleration["effect"] = rng.choice(("NoSchedule", "NoExecute"))
        exactly["tolerations"] = [toleration]


def dress_result(rng: random.Random, device: Json, result: Json) -> None:
    """A device in use: where it can be shared, some of it."""
    if device.get("allowMultipleAllocations") and rng.random() < 0.9:
        result["shareID"] = f"00000000-0000-4000-8000-{rng.randrange(10**12):012}"
        result["consumedCapacity"] = {
            name: rng.choice(("10Gi", "20Gi")) if name == "memory" else "40" for name in device["capacity"]
        }
