"""Makes the page that Prometheus scrapes, with Prometheus' own client, which is loaded at the first scrape.

The Accept header chooses the format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from driver.status.metric_family import Distribution, Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["MetricsPage"]


class MetricsPage:
    """A page of metrics for the probe server. Thread-safe; serves one scrape at a time.

    Args:
        families: Returns the metrics to show; called at each scrape. Those of this process (``process_*``) are added.
    """

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families
        self._lock = threading.Lock()

    def __call__(self, accept: str) -> tuple[str, bytes]:
        """Return the page's content type and its text.

        Args:
            accept: The request's Accept header.
        """
        # Not before: the library costs the plugin megabytes, and many nodes are never scraped.
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415
        from prometheus_client.process_collector import ProcessCollector  # noqa: PLC0415
        from prometheus_client.registry import Collector  # noqa: PLC0415

        families = self._families
        own = ProcessCollector(registry=None)

        class Everything(Collector):
            def collect(self) -> Iterator[Metric]:
                yield from map(_metric, families())
                yield from own.collect()

        encode, content_type = choose_encoder(accept)
        with self._lock:
            return content_type, encode(Everything())


def _metric(family: Family) -> Metric:
    from prometheus_client.core import (  # noqa: PLC0415 - as above
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in family.samples:
            if isinstance(value, Distribution):
                histogram.add_metric(labels, _buckets(value), value.sum_s)
        return histogram
    made = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        family.name, family.text, labels=family.labels
    )
    for labels, value in family.samples:
        if not isinstance(value, Distribution):
            made.add_metric(labels, value)
    return made


def _buckets(distribution: Distribution) -> list[tuple[str, float]]:
    """Return buckets with cumulative counts, as Prometheus has them."""
    bounds = (*map(str, distribution.bounds_s), "+Inf")
    return [(bound, float(count)) for bound, count in zip(bounds, accumulate(distribution.counts), strict=True)]
