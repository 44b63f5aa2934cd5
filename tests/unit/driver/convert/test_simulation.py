"""Converted pods through `rootport simulate`: allocated on a machine, and prepared there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.convert import convert
from tests.support.command_line import rootport
from tests.support.topologies import nccl_file
from tests.unit.driver.convert.conversions import pod

__all__ = ["rootport"]

JOINT = {"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"]}'}
SAME_PCIE = {
    "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'
}
VFS = {"scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}'}


@pytest.mark.parametrize(
    ("resources", "annotations", "devices"),
    [
        ({"kubernetes.io/gpu": "100"}, {}, ["gpu"]),
        ({"nvidia.com/gpu": "100"}, {}, ["gpu"]),
        ({"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory-ratio": "100"}, {}, ["gpu"]),
        ({"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory": "16Mi"}, {}, ["gpu"]),
        ({"koordinator.sh/gpu": "50"}, {}, ["gpu-ratio"]),
        ({"koordinator.sh/gpu-memory": "20Gi"}, {}, ["gpu"]),
        ({"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory": "20Gi"}, {}, ["gpu", "gpu"]),
        (
            {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"},
            SAME_PCIE,
            ["gpu", "gpu", "rdma-vfs", "rdma-vfs"],
        ),
        ({"nvidia.com/gpu": "1", "koordinator.sh/rdma": "1"}, JOINT, ["gpu", "rdma-vfs"]),
        ({"nvidia.com/gpu": "8"}, {}, ["gpu"] * 8),
        ({"nvidia.com/mig-1g.10gb": "2"}, {}, ["mig", "mig"]),
    ],
    ids=lambda value: "+".join(f"{name}={amount}" for name, amount in value.items()) if isinstance(value, dict) else "",
)
def test_a_converted_pod_gets_its_devices(
    rootport: Callable[..., Any],
    tmp_path: Path,
    resources: dict[str, str],
    annotations: dict[str, str],
    devices: list[str],
) -> None:
    data = pod(resources)
    data["metadata"]["annotations"] = {**annotations, **(VFS if "rdma-vfs" in devices else {})}
    conversion = convert(data)
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([*conversion.templates, conversion.object]))
    machine = ("--topology", nccl_file("azure-nd-h100-v5"), "--gpu-model", "H100", "--vfs-per-nic", "2")
    ran = rootport("simulate", *machine, "--claims", file, "-o", "json")
    assert ran.code == 0, ran.err + ran.out
    (claim,) = json.loads(ran.out)["claims"]
    kinds = [re.match(r"([a-z-]+?)-[0-9a-f]{4}-", device["device"]) for device in claim["devices"]]
    assert sorted(kind[1] for kind in kinds if kind) == devices
