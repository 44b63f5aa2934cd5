"""The scripted API server."""

from __future__ import annotations

from tests.support.scripted_api import answer, scripted, scripted_api, scripted_tls

__all__ = ["answer", "scripted", "scripted_api", "scripted_tls"]
