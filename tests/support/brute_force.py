"""The first allocation of whole devices, by trying every combination: for tiny problems, and plainly right.

Combinations come in Kubernetes' order: requests in order, for each of them sets of devices in the node's order, the
last request varying fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from tests.support.allocation_validity import Offer, attribute_values, offers, selects

__all__ = ["first_allocation"]

Json = dict[str, Any]
Choice = tuple[Offer, ...]


def first_allocation(problem: Json, node: Json) -> list[list[tuple[str, str, str, str]]] | None:
    """For each claim, (request, driver, pool, device) of all devices; None where there is no valid combination.

    The problem must have no errors and nothing of the later stages.
    """
    requests = [
        (place, request)
        for place, claim in enumerate(problem["claims"])
        for request in claim["spec"]["devices"]["requests"]
    ]
    here = offers(problem, node)
    for chosen in product(*(list(_choices(problem, request, here)) for _, request in requests)):
        given = [
            (place, request, offer)
            for (place, request), devices in zip(requests, chosen, strict=True)
            for offer in devices
        ]
        if _valid(problem, given):
            return [
                [(request["name"], *offer.id) for claim, request, offer in given if claim == place]
                for place in range(len(problem["claims"]))
            ]
    return None


def _choices(problem: Json, request: Json, here: list[Offer]) -> Iterator[Choice]:
    wanted = request["exactly"]
    held = {
        (item["driver"], item["pool"], item["device"])
        for claim in problem["allocatedClaims"]
        for item in claim["status"]["allocation"]["devices"]["results"]
        if not item.get("adminAccess")
    }
    selected = [offer for offer in here if selects(problem, wanted, offer)]
    free = [offer for offer in selected if wanted.get("adminAccess") or offer.id not in held]
    if wanted.get("allocationMode") == "All":
        if selected and len(free) == len(selected):
            yield tuple(selected)
        return
    yield from combinations(free, wanted.get("count", 1))


def _valid(problem: Json, given: list[tuple[int, Json, Offer]]) -> bool:
    plain = [offer.id for _, request, offer in given if not request["exactly"].get("adminAccess")]
    within = [(claim, offer.id) for claim, _, offer in given]
    if len(set(plain)) < len(plain) or len(set(within)) < len(within):
        return False
    for place, claim in enumerate(problem["claims"]):
        if sum(owner == place for owner, _, _ in given) > 32:
            return False
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            names = constraint.get("requests")
            kind, attribute = next((key, value) for key, value in constraint.items() if key != "requests")
            values = [
                attribute_values(offer, attribute)
                for owner, request, offer in given
                if owner == place and (not names or request["name"] in names)
            ]
            if None in values:
                return False
            if kind == "matchAttribute" and len(set(values)) > 1:
                return False
            if kind == "distinctAttribute" and len(set(values)) < len(values):
                return False
    return True
