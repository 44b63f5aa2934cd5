from __future__ import annotations

from tests.support.command_line import rootport

__all__ = ["rootport"]
