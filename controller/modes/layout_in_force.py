"""Chooses the layout of GPUs for the cluster, and notices when the choice changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.modes.rule import Choice, Layout, choose

__all__ = ["LayoutInForce"]

_LOG: Final = logging.getLogger(__name__)


class LayoutInForce:
    """The layout by the rule of :mod:`driver.modes.rule`. Safe for several threads.

    Args:
        api: The API server; its version is asked for once, and again after :meth:`forget`.
        has_counters: Returns whether it keeps counters; may raise ApiServerError.
        nodes: Returns how many Nodes there are.
        override: The layout that the administrator has set; None for none.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        has_counters: Callable[[], bool],
        nodes: Callable[[], int],
        override: Layout | None = None,
    ) -> None:
        self._api = api
        self._has_counters = has_counters
        self._nodes = nodes
        self._override = override
        self._lock = threading.Lock()
        self._minor: int | None = None
        self._choice: Choice | None = None
        self._changed = False

    @property
    def now(self) -> Choice:
        """The layout, and why.

        Raises:
            ApiServerError: The API server does not answer.
        """
        with self._lock:
            if self._minor is None:
                self._minor = self._api.server_minor()
            former = self._choice
            self._choice = choose(
                minor=self._minor,
                has_counters=self._has_counters(),
                nodes=self._nodes(),
                former=former.layout if former else None,
                override=self._override,
            )
            if self._choice != former:
                self._changed = True
                _LOG.info(
                    "layout of GPUs",
                    extra={
                        "layout": self._choice.layout.value,
                        "reason": self._choice.reason,
                        "detail": self._choice.message,
                        "kubernetes_minor": self._minor,
                    },
                )
            return self._choice

    @property
    def last(self) -> Layout:
        """The layout when it was last asked for: without a call to the API server."""
        with self._lock:
            return self._choice.layout if self._choice else Layout.FULL

    def take_change(self) -> bool:
        """Return whether the choice is another one than at the last call, so that all nodes must be reconciled.

        Raises:
            ApiServerError: The API server does not answer.
        """
        _ = self.now
        with self._lock:
            changed, self._changed = self._changed, False
        return changed

    def forget(self) -> None:
        """Forget the API server's version: it may have been upgraded since."""
        with self._lock:
            self._minor = None
