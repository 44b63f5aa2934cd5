"""Reads the health of a node's devices out of the status of its NodeInventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from driver.api.rootport_v1alpha1 import Condition, NodeInventoryStatus
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.rivals import Rival
from driver.objects.faults import PREPARE_CONDITIONS, STRATEGY_CONDITIONS

__all__ = ["node_health"]

_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


def node_health(inventory: Mapping[str, Any]) -> NodeHealth:
    """Return the health in a stored NodeInventory; nothing is known where its status cannot be read.

    A fault whose time cannot be read counts all the same, as one of long ago.

    Args:
        inventory: A NodeInventory as the API server stores it.
    """
    try:
        status = NodeInventoryStatus.model_validate(inventory.get("status") or {})
        faults = tuple(
            Fault(
                device=DeviceName(item.device),
                reason=item.reason,
                effect=Effect(item.effect),
                since=_since(item.since),
                message=item.message,
            )
            for item in status.faults
        )
    except ValidationError:
        return NodeHealth()
    return NodeHealth(
        watched=frozenset(map(DeviceName, status.watched)),
        faults=faults,
        cannot_prepare=_cannot_prepare(status.conditions),
        strategies=_strategies(status.conditions),
        prepares_before_binding=frozenset(status.prepares_before_binding),
        rivals=tuple(
            Rival(name=item.name, kind=item.kind, devices=tuple(map(DeviceName, item.devices)), message=item.message)
            for item in status.rivals
        ),
    )


def _cannot_prepare(conditions: Iterable[Condition]) -> str:
    false = {item.type: item.reason for item in conditions if item.status == "False"}
    return next((false[name] for name in PREPARE_CONDITIONS if name in false), "")


def _strategies(conditions: Iterable[Condition]) -> frozenset[str]:
    # Only what is known to work: the plugin may not have read the policies yet by which a GPU offers a strategy.
    true = {item.type for item in conditions if item.status == "True"}
    return frozenset(strategy for strategy, name in STRATEGY_CONDITIONS.items() if name in true)


def _since(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        # The CRD wants a time zone; a dump that a person has edited may have none. Near the ends of the calendar a time
        # may have no counterpart in UTC.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _LONG_AGO
