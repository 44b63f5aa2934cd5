"""The JSON of ``rootport migrate -o json``: fields are added, and never renamed."""

from __future__ import annotations

from typing import Any

from driver.migration.steps import Migration, Step

__all__ = ["migration_to_wire"]


def migration_to_wire(migration: Migration) -> dict[str, Any]:
    """Return a migration as JSON; ``next`` is null once all steps are done."""
    return {
        "node": migration.node,
        "direction": "Back" if migration.is_back else "Forward",
        "steps": [_step(step) for step in migration.steps],
        "next": None if migration.next is None else _step(migration.next),
        "remarks": list(migration.remarks),
    }


def _step(step: Step) -> dict[str, str]:
    state = "".join(word.capitalize() for word in step.state.value.split())
    wire = {"name": step.name, "state": state, "text": step.text}
    return wire | {"command": step.command} if step.command else wire
