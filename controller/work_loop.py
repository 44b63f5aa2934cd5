"""Takes keys out of a work queue and reconciles them, whatever happens to one of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from controller.work_queue import WorkQueue
from driver.adapters.kubernetes.errors import ApiServerError

__all__ = ["work"]

_LOG: Final = logging.getLogger(__name__)


def work(
    queue: WorkQueue,
    what: str,
    reconcile: Callable[[str], float | None],
    *,
    stop: threading.Event,
    may_start: Callable[[], bool],
    slow: bool | None = None,
) -> None:
    """Reconcile the queue's keys until it is closed. A key whose work failed is tried again.

    Args:
        queue: The queue.
        what: What a key is, in the log.
        reconcile: Reconciles a key; returns after how many seconds it is due again, None if it is not.
        stop: Ends the wait for the start.
        may_start: Whether everything has been read that the work needs.
        slow: As for :meth:`~controller.work_queue.WorkQueue.get`.
    """
    while not may_start():
        if stop.wait(0.05):
            return
    while (key := queue.get(slow=slow)) is not None:
        try:
            again_s = reconcile(key)
        except Exception as error:  # noqa: BLE001 - one key's failure must not end the work on the others
            _log_failure({what: key}, error, queue.failed(key))
        else:
            queue.succeeded(key)
            if again_s is not None:
                queue.add(key, after_s=again_s)


def _log_failure(what: dict[str, str], error: Exception, delay_s: float) -> None:
    fields = what | {"retry_in_s": round(delay_s, 1)}
    if isinstance(error, ApiServerError):
        _LOG.warning("will be tried again", extra=fields | {"error": str(error)})
    else:
        _LOG.error("unexpected error; will be tried again", extra=fields, exc_info=error)
