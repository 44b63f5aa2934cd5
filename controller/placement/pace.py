"""How often one pod may be placed: whatever undoes its placement again and again must not make writes without end."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from driver.backoff import delay_s

__all__ = ["Pace"]

_AT_ONCE: Final = 3
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_PODS: Final = 4096


@dataclass(slots=True)
class _Pod:
    times: int = 0
    not_before: float = 0.0


class Pace:
    """Spaces the placements of a pod out, the more so the more there were. Not thread-safe; bounded."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, _Pod] = OrderedDict()  # by UID

    def wait_s(self, pod_uid: str, now: float) -> float:
        """Return in how many seconds a pod may be placed; 0 for now."""
        pod = self._pods.get(pod_uid)
        return 0.0 if pod is None else max(pod.not_before - now, 0.0)

    def placed(self, pod_uid: str, now: float) -> None:
        """Take note that a pod is placed."""
        pod = self._pods.setdefault(pod_uid, _Pod())
        self._pods.move_to_end(pod_uid)
        pod.times += 1
        if pod.times >= _AT_ONCE:
            pod.not_before = now + delay_s(pod.times - _AT_ONCE + 1, first_s=_FIRST_S, limit_s=_LONGEST_S)
        if len(self._pods) > _PODS:
            self._pods.popitem(last=False)

    def forget(self, pod_uid: str) -> None:
        """Forget a pod that is bound, or gone."""
        self._pods.pop(pod_uid, None)
