"""The scripted API server."""

from __future__ import annotations

from tests.support.scripted_api import answer, connect, scripted, scripted_api, scripted_tls

__all__ = ["answer", "connect", "scripted", "scripted_api", "scripted_tls"]
