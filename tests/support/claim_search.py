"""Claims that take long to explain, and a search for worse ones.

A claim is made of a :class:`Recipe`, a few numbers. The search changes some of them, and goes on with what is worse:
what takes more CPU time for each byte of the claim, and what goes longer without asking the budget.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.support.explain_cluster import classes, node_objects, pending_pod

__all__ = ["Cost", "Recipe", "cost_of", "search", "wire"]

Json = dict[str, Any]

PIECE_S: Final = 0.4
LAST_S: Final = 0.8
NAMESPACE: Final = "ml"

_D: Final = 'device.attributes["rootport.dev"]'
_SELECTORS: Final = (
    "true",
    f"{_D}.index >= 0 || {{n}} == 1000",
    f'{_D}.uuid.startsWith("{{n}}") || {_D}.index >= {{n}} - 1000',
    f'{_D}.noSuch{{n}} == "x"',
    f'{_D}.model == "Hopper{{n}}"',
    f'[{", ".join(["1"] * 60)}].all(x, [{", ".join(["1"] * 60)}].all(y, {_D}.uuid != "{{n}}"))',
    f'{_D}.uuid.matches("((a?){{{{9}}}}){{{{9}}}}{{n}}") || {_D}.index >= 0',
    " && ".join([f"{_D}.index != 1{{n}}"] * 60),
    f'cel.bind(s, "{"a" * 900}", [{", ".join(["1"] * 30)}].all(x, s.replace("", s).size() > 0)) || {_D}.index > {{n}}',
    f'{_D}.uuid.find("[a-z]+{{n}}") != "" || {_D}.uuid.split("-").join("{{n}}").size() > 0',
)
_ATTRIBUTES: Final = (
    "rootport.dev/pcieSwitch",
    "resource.kubernetes.io/pcieRoot",
    "resource.kubernetes.io/numaNode",
    "rootport.dev/model",
    "rootport.dev/uuid",
    "rootport.dev/index",
    "rootport.dev/noSuch",
    "rootport.dev/type",
)
_CLASSES: Final = (
    "gpu.rootport.dev",
    "rdma.rootport.dev",
    "gpu-ratio.rootport.dev",
    "mig.rootport.dev",
    "gpus.rootport",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a claim is made of; every number may be any, and is brought into the API's bounds.

    Attributes:
        requests: How many, 1 to 32.
        alternatives: Of each, 1 to 8.
        selectors: Of each alternative, 0 to 32.
        selector: Which kind.
        is_same: All selectors are equal; otherwise each is another one.
        constraints: How many, 0 to 32.
        attribute: Of the first one; the others have those behind it.
        distinct: Every so many constraints is a distinctAttribute; 0 for none.
        reach: So many requests are under each constraint; 0 for all.
        count: How many devices a request asks for; 0 for all there are.
        mixed: How many classes the requests are of.
        capacity: How many requests in ten ask for a capacity.
        tolerations: Of each request, 0 to 16.
    """

    requests: int = 1
    alternatives: int = 1
    selectors: int = 1
    selector: int = 0
    is_same: int = 0
    constraints: int = 0
    attribute: int = 0
    distinct: int = 0
    reach: int = 0
    count: int = 1
    mixed: int = 1
    capacity: int = 0
    tolerations: int = 0


_MOST: Final = {
    "requests": 32, "alternatives": 8, "selectors": 32, "selector": len(_SELECTORS) - 1, "is_same": 1,
    "constraints": 32, "attribute": len(_ATTRIBUTES) - 1, "distinct": 4, "reach": 8, "count": 9,
    "mixed": len(_CLASSES), "capacity": 10, "tolerations": 16,
}  # fmt: skip
_LEAST: Final = {"requests": 1, "alternatives": 1, "mixed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a claim cost.

    Attributes:
        size: Of the claim, in bytes.
        cpu_s: Of all pieces of one explanation.
        over_s: By how much the worst piece took longer than it may.
    """

    size: int
    cpu_s: float
    over_s: float

    @property
    def badness(self) -> float:
        """The more, the worse."""
        return self.cpu_s / (2000 + self.size) * 10_000 + 100 * self.over_s


def wire(recipe: Recipe, name: str = "worst") -> Json:
    """The claim, as the API server stores it."""
    requests = [_request(recipe, number) for number in range(recipe.requests)]
    constraints = []
    for number in range(recipe.constraints):
        attribute = _ATTRIBUTES[(recipe.attribute + number) % len(_ATTRIBUTES)]
        is_distinct = recipe.distinct and number % recipe.distinct == 0
        held = [f"r{(number + other) % recipe.requests}" for other in range(min(recipe.reach, recipe.requests))]
        constraints.append(
            {"distinctAttribute" if is_distinct else "matchAttribute": attribute} | ({"requests": held} if held else {})
        )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }


def _request(recipe: Recipe, number: int) -> Json:
    parts = []
    for index in range(recipe.alternatives):
        texts = [
            _SELECTORS[recipe.selector].format(n=0 if recipe.is_same else (number * 8 + index) * 32 + place)
            for place in range(recipe.selectors)
        ]
        part: Json = {
            "deviceClassName": _CLASSES[(number + index) % recipe.mixed],
            "selectors": [{"cel": {"expression": text}} for text in texts],
        }
        part |= {"allocationMode": "ExactCount", "count": recipe.count} if recipe.count else {"allocationMode": "All"}
        if number % 10 < recipe.capacity:
            part["capacity"] = {"requests": {"memory": f"{1 + number}Gi"}}
        if recipe.tolerations:
            part["tolerations"] = [{"key": f"k{n}", "operator": "Exists"} for n in range(recipe.tolerations)]
        parts.append(part)
    if len(parts) == 1:
        return {"name": f"r{number}", "exactly": parts[0]}
    return {"name": f"r{number}", "firstAvailable": [{"name": f"a{n}"} | part for n, part in enumerate(parts)]}


@lru_cache(maxsize=2)
def _objects(nodes: int, *, mig: bool) -> tuple[tuple[Kind, str], ...]:
    found = [(kind, item) for kind, item in classes()]
    for number in range(nodes):
        found += node_objects(number, mixed=True, mig=mig)
    return tuple((kind, json.dumps(item)) for kind, item in found)


def cost_of(recipe: Recipe, *, nodes: int = 40, mig: bool = False) -> Cost:
    """What it costs to explain the claim once, as the controller does it, in a cluster that nobody asked before."""
    state = ClusterState()
    for kind, text in _objects(nodes, mig=mig):
        state.put(kind, json.loads(text))
    claim = wire(recipe)
    state.put(Kind.CLAIM, claim)
    state.put(Kind.POD, pending_pod("worst"))
    explainer, subject = Explainer(state), ObjectRef(kind="ResourceClaim", namespace=NAMESPACE, name="worst")
    gc.collect()
    cpu_s = over_s = 0.0
    for _ in range(3):
        began = time.thread_time()
        is_done = explainer.judge_nodes(subject, budget=Budget(PIECE_S))
        took = time.thread_time() - began
        cpu_s, over_s = cpu_s + took, max(over_s, took - PIECE_S)
        if is_done:
            break
    began = time.thread_time()
    explainer.explain(subject, budget=Budget(LAST_S))
    took = time.thread_time() - began
    return Cost(size=len(json.dumps(claim)), cpu_s=cpu_s + took, over_s=max(over_s, took - LAST_S))


def search(seconds: float, *, seed: int, first: Recipe) -> Iterator[tuple[Recipe, Cost]]:
    """Each claim that is worse than all before it, for so many seconds.

    Args:
        seconds: How long.
        seed: Of the changes.
        first: Where to begin.
    """
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    best, worst = first, cost_of(first)
    yield best, worst
    while time.monotonic() < end:
        tried = best
        for _ in range(chance.choice((1, 1, 2, 3))):
            tried = _changed(tried, chance)
        cost = cost_of(tried, mig=chance.random() < 0.3)
        if cost.badness > worst.badness:
            best, worst = tried, cost
            yield best, worst


def _changed(recipe: Recipe, chance: random.Random) -> Recipe:
    name = chance.choice([item.name for item in fields(Recipe)])
    low, high = _LEAST.get(name, 0), _MOST[name]
    value = asdict(recipe)[name]
    near = chance.choice((low, high, value // 2, value * 2, value - 1, value + 1, chance.randint(low, high)))
    return replace(recipe, **{name: min(high, max(low, near))})


def all_in(folder: Path) -> Iterator[tuple[str, Recipe]]:
    """The claims that were found and kept."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, Recipe(**json.loads(path.read_text(encoding="utf-8")))
