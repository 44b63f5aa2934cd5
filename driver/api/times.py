"""Moments as the Kubernetes API writes them.

Source: k8s.io/apimachinery v0.36.3, pkg/apis/meta/v1, time.go and micro_time.go.
"""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["micro_time_text", "time_text"]


def time_text(moment: datetime) -> str:
    """Return a metav1.Time: RFC 3339 in UTC, whole seconds.

    Args:
        moment: With a time zone.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time_text(moment: datetime) -> str:
    """Return a metav1.MicroTime: the same with microseconds.

    Args:
        moment: With a time zone.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
