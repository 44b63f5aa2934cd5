"""Whether an answer agrees with Kubernetes' allocator, by the three rules of tests/data/conformance/README.md."""

from __future__ import annotations

from typing import Any

from tests.support.allocation_validity import violations

__all__ = ["disagreements"]

Json = dict[str, Any]


def disagreements(problem: Json, answer: Json) -> list[str]:
    """What speaks against ``answer``; nothing where it agrees.

    Args:
        problem: A problem with its ``oracle``, and ``strict`` where that is known.
        answer: What driver.adapters.files.allocation_problems says.
    """
    known = problem["oracle"]
    theirs: list[Json] | None = known["result"] or None
    ours: list[Json] | None = answer["result"] or None
    wrong: list[str] = []
    if ours is not None:
        wrong += violations(problem, answer["node"], ours)
    feasible = (problem.get("strict") or {}).get("feasible")
    if feasible is None:
        feasible = theirs is not None
        if bool(known.get("error")) != (answer["error"] is not None):
            wrong.append(f"their error: {known.get('error')}; ours: {answer['error']}")
    elif not feasible and known.get("error") and answer["error"] is None:
        wrong.append(f"no error, but they say: {known['error']}")
    if feasible != (ours is not None):
        wrong.append(f"a result is {'missing' if feasible else 'given'}: {answer['error']}")
    if theirs is None or ours is None or any(tag.startswith("quirk-") for tag in problem.get("tags", ())):
        return wrong
    node = known.get("node") or answer["node"]
    if not violations(problem, node, theirs) and (node, _devices(theirs)) != (answer["node"], _devices(ours)):
        wrong.append(f"they give {node} {_devices(theirs)}, we give {answer['node']} {_devices(ours)}")
    elif (
        node == answer["node"]
        and _devices(theirs) == _devices(ours)
        and _without_shares(theirs) != _without_shares(ours)
    ):
        wrong.append(f"they say {_without_shares(theirs)}, we say {_without_shares(ours)}")
    return wrong


def _devices(result: list[Json]) -> list[list[tuple[str, str, str, str]]]:
    return [
        [
            (item["request"], item["driver"], item["pool"], item["device"])
            for item in of_claim["devices"].get("results", ())
        ]
        for of_claim in result
    ]


def _without_shares(result: list[Json]) -> list[Json]:
    """ShareIDs are random."""
    return [
        of_claim
        | {
            "devices": of_claim["devices"]
            | {
                "results": [
                    {key: value for key, value in item.items() if key != "shareID"}
                    for item in of_claim["devices"].get("results", ())
                ]
            }
        }
        for of_claim in result
    ]
