"""Why pods fit nowhere, as placement last decided: whoever explains why they wait may ask. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

__all__ = ["UnplacedPods"]

_PODS: Final = 4096


class UnplacedPods:
    """The last reasons by the pod's UID; bounded: what is oldest is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def record(self, pod_uid: str, why: str) -> None:
        """Take note of why a pod fits nowhere."""
        with self._lock:
            self._reasons[pod_uid] = why
            self._reasons.move_to_end(pod_uid)
            if len(self._reasons) > _PODS:
                self._reasons.popitem(last=False)

    def why(self, pod_uid: str) -> str:
        """Return why a pod fits nowhere; empty where it does, or nothing was decided."""
        with self._lock:
            return self._reasons.get(pod_uid, "")

    def forget(self, pod_uid: str) -> None:
        """Forget a pod that was placed, or is gone."""
        with self._lock:
            self._reasons.pop(pod_uid, None)
