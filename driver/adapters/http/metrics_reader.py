"""Reads a page that Prometheus would scrape, with Prometheus' own client.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format.
"""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client.parser import text_string_to_metric_families

from driver.errors import NodeError
from driver.status.load import MetricSample

__all__ = ["read_samples"]


def read_samples(text: str, names: Collection[str]) -> tuple[MetricSample, ...]:
    """Return the samples of these names, in the text's order.

    Args:
        text: A page of metrics.
        names: The names of the samples. Other lines, most of a page, are not parsed.

    Raises:
        NodeError: The text is no page of metrics.
    """
    # A name ends where its labels or its value begin.
    wanted = [line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] in names]
    try:
        return tuple(
            MetricSample(name=sample.name, labels=dict(sample.labels), value=float(sample.value))
            for family in text_string_to_metric_families("\n".join(wanted) + "\n")
            for sample in family.samples
        )
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
        # The parser has no error of its own for a malformed line.
        raise NodeError(f"the metrics cannot be read: {' '.join(str(error).split())[:200]}") from error
