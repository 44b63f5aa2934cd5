"""Lists: in pages that are bounded in bytes, whatever the objects are."""

from __future__ import annotations

import tracemalloc
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import JsonObject, Resource
from tests.unit.driver.adapters.kubernetes.test_pages import MIB

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


def test_large_objects_come_in_pages_of_a_few_megabytes(api: KubernetesApi, namespace: str) -> None:
    for number in range(30):
        body = {"metadata": {"name": f"c{number:02}"}, "data": {"x": "x" * 900_000}}
        api.create(CONFIG_MAPS, body, namespace=namespace)
    seen = []

    def name(stored: JsonObject) -> JsonObject:
        seen.append(len(stored["data"]["x"]))
        return {"metadata": {"name": stored["metadata"]["name"]}}

    tracemalloc.start()
    try:
        listing = api.list(CONFIG_MAPS, namespace=namespace, transform=name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [item["metadata"]["name"] for item in listing.items] == [f"c{number:02}" for number in range(30)]
    assert seen == [900_000] * 30
    assert peak < 16 * MIB
