"""Says once that the API server refuses writes, and not for each of thousands of objects."""

from __future__ import annotations

import logging
from typing import Final

from driver.adapters.kubernetes.errors import ApiServerError

__all__ = ["Refusals"]

_LOG: Final = logging.getLogger(__name__)
_AGAIN_S: Final = 300.0


class Refusals:
    """Logs the first of a series of refusals. Not thread-safe.

    Args:
        what: What they mean, for the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_told = False

    def again_s(self, error: ApiServerError, **whose: str) -> float:
        """Take note of a refusal.

        Args:
            error: Why.
            whose: The object, as fields of the log.

        Returns:
            Seconds until it is worth another try.
        """
        _LOG.log(logging.DEBUG if self._is_told else logging.WARNING, self._what, extra={"error": str(error), **whose})
        self._is_told = True
        return _AGAIN_S

    def end(self) -> None:
        """Take note that a write was taken: the next refusal is told again."""
        self._is_told = False
