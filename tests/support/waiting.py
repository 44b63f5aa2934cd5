"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["eventually"]


def eventually(what: str, get: Callable[[], object], *, timeout_s: float = 20) -> Any:
    """Call ``get`` until it returns something true, and return that; fail with ``what`` after ``timeout_s``."""
    end = time.monotonic() + timeout_s
    while not (found := get()):
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)
    return found
