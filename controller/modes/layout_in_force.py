"""Chooses the layout of GPUs for the cluster, and notices when the choice changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.modes.rule import Choice, Layout, choose

__all__ = ["LayoutInForce"]

_LOG: Final = logging.getLogger(__name__)


class LayoutInForce:
    """The layout by the rule of :mod:`driver.modes.rule`. Safe for several threads.

    Args:
        api: The API server; its version is asked for once where it decides, and again after :meth:`forget`.
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
        self._is_minor_fresh = False
        self._choice: Choice | None = None
        self._changed = False

    @property
    def now(self) -> Choice:
        """The layout, and why.

        Raises:
            ApiServerError: The API server does not answer.
        """
        with self._lock:
            former = self._choice
            self._choice = choose(
                minor=self._server_minor,
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
        """The layout when it was last asked for: without a call to the API server, or a wait for one."""
        choice = self._choice
        return choice.layout if choice else Layout.FULL

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
        """Ask for the API server's version again: it may have been upgraded since."""
        with self._lock:
            self._is_minor_fresh = False

    def _server_minor(self) -> int:
        """Return the minor version; the last one that is known where the API server does not answer."""
        known = self._minor
        if known is not None and self._is_minor_fresh:
            return known
        try:
            self._minor = minor = self._api.server_minor()
        except ApiServerError as error:
            if known is None:
                raise
            _LOG.warning("the API server's version cannot be read: the last one holds", extra={"error": str(error)})
            return known
        self._is_minor_fresh = True
        return minor
