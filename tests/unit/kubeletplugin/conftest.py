from __future__ import annotations

from tests.support.preparer.fixtures import machine

__all__ = ["machine"]
