"""Makes the condition NoRivalPlugin of who else gives out this node's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.model.rivals import Rival
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType

__all__ = ["rival_report"]

_SHOWN: Final = 5


def rival_report(rivals: Sequence[Rival], *, held: Sequence[str] = (), has_answered: bool = True) -> ConditionReport:
    """Return the report.

    Args:
        rivals: Who else gives out devices that this node publishes.
        held: Those of these devices that prepared claims have, by name: they may be given out twice by now.
        has_answered: Whether the kubelet has told which devices device plugins have; without it, nobody else knows.
    """
    if not rivals and not has_answered:
        message = "the Node and the ResourceSlices show no rival, but the kubelet does not tell its device plugins' "
        message += "devices (--pod-resources-socket)"
        return ConditionReport(
            type=ConditionType.NO_RIVAL_PLUGIN,
            status=ConditionStatus.UNKNOWN,
            reason="KubeletDoesNotAnswer",
            message=message,
        )
    if not rivals:
        message = "no other device plugin or DRA driver gives out this node's devices"
        return ConditionReport(
            type=ConditionType.NO_RIVAL_PLUGIN, status=ConditionStatus.TRUE, reason="NoRival", message=message
        )
    # Not `listed`: each is a sentence that may have an "and" of its own.
    more = f"; and {len(rivals) - _SHOWN} more" if len(rivals) > _SHOWN else ""
    told = f"{'; '.join(rival.message for rival in rivals[:_SHOWN])}{more}"
    if held:
        count = f"{len(held)} such as {held[0]}" if len(held) > 1 else held[0]
        message = f"claims have devices that can be given out a second time ({count}): {told}"
        return _report("DevicesGivenTwice", message)
    return _report("RivalPlugin", f"no new claim gets devices that can be given out twice: {told}")


def _report(reason: str, message: str) -> ConditionReport:
    return ConditionReport(
        type=ConditionType.NO_RIVAL_PLUGIN, status=ConditionStatus.FALSE, reason=reason, message=message
    )
