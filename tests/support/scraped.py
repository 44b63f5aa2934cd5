"""Reads a page as Prometheus' own parser reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driver.adapters.http.metrics_page import MetricsPage
from driver.status.metric_family import Family

Samples = dict[tuple[tuple[str, str], ...], float]


class Scraped:
    """A page's samples. Two with one name and the same labels fail, as they do for Prometheus."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: dict[str, str] = {}
        self._samples: dict[str, Samples] = {}
        for found in text_string_to_metric_families(text):
            self.kinds[found.name] = found.type
            for sample in found.samples:
                labels = tuple(sorted(sample.labels.items()))
                samples = self._samples.setdefault(sample.name, {})
                assert labels not in samples, f"{sample.name}{labels} twice"
                samples[labels] = sample.value

    def of(self, name: str) -> list[tuple[dict[str, str], float]]:
        """A name's samples, with their labels."""
        return [(dict(labels), value) for labels, value in self._samples.get(name, {}).items()]

    def value(self, name: str, **labels: str) -> float:
        """The one sample with these labels, among others."""
        (found,) = (value for own, value in self.of(name) if labels.items() <= own.items())
        return found

    def values(self, name: str, label: str) -> dict[str, float]:
        """A name's samples by one label, which tells them apart."""
        found = {own[label]: value for own, value in self.of(name)}
        assert len(found) == len(self.of(name))
        return found


@pytest.fixture
def scrape() -> Callable[[Iterable[Family]], Scraped]:
    def scraped(families: Iterable[Family]) -> Scraped:
        _, body = MetricsPage(lambda: families)("")
        return Scraped(body.decode())

    return scraped
