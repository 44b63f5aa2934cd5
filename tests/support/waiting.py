"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from driver.adapters.kubernetes.errors import UnavailableError

__all__ = ["eventually"]


def eventually(what: str, get: Callable[[], object], *, timeout_s: float = 20) -> Any:
    """Call ``get`` until it returns something true, and return that; fail with ``what`` after ``timeout_s``.

    An API server that answers "not now" is asked again: a changed CustomResourceDefinition has it do so for a moment.
    """
    end = time.monotonic() + timeout_s
    while not (found := _unless_unavailable(get)):
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)
    return found


def _unless_unavailable(get: Callable[[], object]) -> object:
    try:
        return get()
    except UnavailableError:
        return None
