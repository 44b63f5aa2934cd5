from __future__ import annotations

from tests.support.command_line import rootport
from tests.support.scripted_api import answer, scripted

__all__ = ["answer", "rootport", "scripted"]
