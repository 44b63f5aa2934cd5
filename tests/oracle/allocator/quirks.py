"""Which problems Kubernetes' allocator may answer wrongly, or as its own search happens to go."""

from __future__ import annotations

from typing import Any

__all__ = ["quirks"]

Json = dict[str, Any]


def quirks(problem: Json) -> list[str]:
    """Where Kubernetes' allocator may be wrong or depend on its own search: see quirks.jsonl."""
    found: set[str] = set()
    admin: set[bool] = set()
    for claim in problem["claims"]:
        devices = claim["spec"]["devices"]
        constraints = devices.get("constraints", ())
        for request in devices["requests"]:
            for part in request.get("firstAvailable") or [request["exactly"]]:
                admin.add(part.get("adminAccess", False))
                everything = part.get("allocationMode") == "All"
                for constraint in constraints:
                    if constraint.get("requests") and request["name"] not in constraint["requests"]:
                        continue
                    if everything:
                        found.add("quirk-all-with-constraint")
    if len(admin) > 1:
        found.add("quirk-admin-mixed")
    return sorted(found)
