"""Reads what Prometheus would scrape."""

from __future__ import annotations

import prometheus_client  # noqa: F401

__all__: list[str] = []
