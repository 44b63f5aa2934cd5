"""The scripted API server."""

from __future__ import annotations

from tests.support.scripted_api import connect, scripted, scripted_api

__all__ = ["connect", "scripted", "scripted_api"]
