"""Tells in the node's conditions which of the plugin's loops fail again and again in a way that nobody expected."""

from __future__ import annotations

import threading

from kubeletplugin.internal_errors import InternalError
from kubeletplugin.publish.conditions import Concern, Finding, Findings, State

__all__ = ["FailingLoops"]


class FailingLoops:
    """What :class:`kubeletplugin.loop.Loop` calls as ``on_failing``. Safe to use from any thread.

    Args:
        findings: Gets the condition NoInternalErrors.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._lock = threading.Lock()
        self._messages: dict[str, str] = {}

    def __call__(self, loop: str, error: InternalError | None) -> None:
        """Take note that a loop fails, or that it no longer does.

        Args:
            loop: Its name.
            error: What it meets; None for nothing any more.
        """
        with self._lock:
            self._messages.pop(loop, None)
            if error is not None:
                self._messages[loop] = f"the plugin's part {loop!r} fails again and again: {error}"
            self._findings.report(_finding(tuple(self._messages.values())))


def _finding(messages: tuple[str, ...]) -> Finding:
    concern = Concern.NO_INTERNAL_ERRORS
    if messages:
        return Finding(concern=concern, state=State.FALSE, reason="FailsUnexpectedly", message="; ".join(messages))
    message = "no part of the plugin fails unexpectedly any more"
    return Finding(concern=concern, state=State.TRUE, reason="NoInternalErrors", message=message)
