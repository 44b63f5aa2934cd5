"""The label of the leading controller's pod, by which a Service selects it: the others have no data to show."""

from __future__ import annotations

import logging
import threading
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import PODS
from driver.backoff import Backoff

__all__ = ["LEADER_LABEL", "LeaderLabel"]

LEADER_LABEL: Final = f"{DRIVER_NAME}/leader"
"""Its value is ``true``; a controller that does not lead does not have it."""

_LOG: Final = logging.getLogger(__name__)
_RETRY_S: Final = 2.0
_LONGEST_RETRY_S: Final = 60.0


class LeaderLabel:
    """Sets and removes the label of this process's pod, in a thread of its own.

    It is removed at the start as well: a container that is started again after a crash is in the same pod.

    Args:
        api: With the right to patch pods in the namespace; used by one thread.
        namespace: The pod's namespace.
        pod: The pod's name.
    """

    def __init__(self, api: KubernetesApi, *, namespace: str, pod: str) -> None:
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._changed = threading.Condition()
        self._wanted = False
        self._written: bool | None = None
        self._is_ending = False
        self._thread = threading.Thread(target=self._keep, name="leader-label", daemon=True)

    def start(self) -> None:
        """Start, and remove the label."""
        self._thread.start()

    def lead(self) -> None:
        """Have the label set soon."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> bool:
        """Remove the label; return False if that is not done in time."""
        with self._changed:
            self._wanted, self._is_ending = False, True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return self._written is False

    def _keep(self) -> None:
        backoff = Backoff(_RETRY_S, _LONGEST_RETRY_S)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_ending or self._wanted is not self._written)
                wanted, is_ending = self._wanted, self._is_ending
            if wanted is not self._written:
                if self._write(wanted):
                    backoff.reset()
                elif not is_ending:
                    with self._changed:
                        self._changed.wait_for(lambda: self._is_ending, backoff.next_s())
                    continue
            if is_ending:
                return

    def _write(self, wanted: bool) -> bool:  # noqa: FBT001 - the label's value
        labels = {LEADER_LABEL: "true" if wanted else None}
        try:
            self._api.merge_patch(PODS, self._pod, {"metadata": {"labels": labels}}, namespace=self._namespace)
        except ApiServerError as error:
            _LOG.warning(
                "the own pod's label is not written: the Service of the dashboard does not find the leader",
                extra={"pod": f"{self._namespace}/{self._pod}", "error": str(error)},
            )
            return False
        self._written = wanted
        return True
