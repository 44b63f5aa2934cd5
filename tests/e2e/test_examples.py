"""Every example runs on the real node, and its pod says what its devices are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.rootport import RunningRootport

EXAMPLES = Path(__file__).parents[2] / "examples"


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def pods(path: Path) -> list[tuple[str, str]]:
    """(namespace, name) of the pods in an example."""
    found = [document["metadata"] for document in documents(path) if document["kind"] == "Pod"]
    return [(metadata.get("namespace", "default"), metadata["name"]) for metadata in found]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_example_s_pod_gets_exactly_the_devices_of_its_claim(rootport: RunningRootport, path: Path) -> None:
    host = rootport.host
    ((namespace, name),) = pods(path)
    rootport.apply(path)
    try:
        rootport.cluster.wait_for_pod(name, "Succeeded", namespace=namespace)
        log = rootport.cluster.kubectl("logs", name, f"--namespace={namespace}")
    finally:
        rootport.delete(path)

    addresses = sorted(
        re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]", " ".join(re.findall(r"_PCI=(.*)", log)))
    )
    expected = {host.gpus.index(a) for a in addresses if a in host.gpus}
    nics = {host.nics.index(a) for a in addresses if a in host.nics}
    assert len(expected) + len(nics) == len(addresses) > 0
    assert set(map(int, re.findall(r"^/dev/nvidia(\d+)$", log, re.MULTILINE))) == expected
    if "nic" in path.stem:
        assert set(map(int, re.findall(r"^/dev/infiniband/uverbs(\d+)$", log, re.MULTILINE))) == nics
        assert nics == expected, "GPU i and NIC i share a switch on this host"
