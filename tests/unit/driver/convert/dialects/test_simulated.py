"""Converted pods and claims through `rootport simulate`: allocated on a machine, and prepared there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.convert import DEFAULT, Settings, convert
from driver.convert.requests import NicRequest
from tests.support.command_line import rootport
from tests.support.topologies import nccl_file
from tests.unit.driver.convert.conversions import pod

__all__ = ["rootport"]

MAPPED = Settings(
    resources={"openshift.io/roce": NicRequest(is_vf=True), "rdma/shared": NicRequest(bandwidth=10**10)},
    share_strategy="hamiCore",
)


def simulated(rootport: Callable[..., Any], tmp_path: Path, documents: list[Any]) -> dict[str, dict[str, Any]]:
    """The claims by name, each with its allocated devices."""
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    machine = ("--topology", nccl_file("azure-nd-h100-v5"), "--gpu-model", "H100", "--nic-speed", "400")
    ran = rootport("simulate", *machine, "--claims", file, "-o", "json")
    assert ran.code == 0, ran.err + ran.out
    return {claim["name"]: claim for claim in json.loads(ran.out)["claims"]}


@pytest.mark.parametrize(
    ("resources", "annotations", "settings", "devices"),
    [
        pytest.param({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8000}, {}, DEFAULT, 2, id="HAMi"),
        pytest.param(
            {"nvidia.com/gpu": 1},
            {"nvidia.com/use-gputype": "h100", "nvidia.com/nouse-gputype": "A100"},
            DEFAULT,
            1,
            id="HAMi, by model",
        ),
        pytest.param({"nvidia.com/gpu": 2}, {"nvidia.com/numa-bind": "true"}, DEFAULT, 2, id="HAMi, on one NUMA node"),
        pytest.param(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50}, {}, DEFAULT, 1, id="Volcano"
        ),
        pytest.param(
            {"tke.cloud.tencent.com/qgpu-core": 160, "tke.cloud.tencent.com/qgpu-memory": 60}, {}, DEFAULT, 2, id="qGPU"
        ),
        pytest.param(
            {"aliyun.com/gpu-mem": 8, "aliyun.com/gpu-core.percentage": 20}, {}, DEFAULT, 1, id="Alibaba Cloud"
        ),
        pytest.param({"rdma/hca": 1}, {}, DEFAULT, 1, id="RDMA"),
        pytest.param({"rdma/shared": 2}, {}, MAPPED, 2, id="RDMA, shared"),
        pytest.param({"nvidia.com/gpu": 2, "rdma/hca": 2}, {}, DEFAULT, 4, id="GPUs and NICs"),
    ],
)
def test_a_converted_pod_gets_its_devices(
    rootport: Callable[..., Any],
    tmp_path: Path,
    resources: dict[str, int],
    annotations: dict[str, str],
    settings: Settings,
    devices: int,
) -> None:
    data = pod(resources)
    data["metadata"]["annotations"] = annotations
    conversion = convert(data, settings)
    [claim] = simulated(rootport, tmp_path, [*conversion.templates, conversion.object]).values()
    assert len(claim["devices"]) == devices, claim


def test_a_converted_claim_of_other_drivers_gets_a_gpu_and_the_nic_beside_it(
    rootport: Callable[..., Any], tmp_path: Path
) -> None:
    def request(name: str, class_: str, expression: str) -> dict[str, Any]:
        selectors = [{"cel": {"expression": expression}}]
        return {"name": name, "exactly": {"deviceClassName": class_, "selectors": selectors}}

    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "pair"},
        "spec": {
            "devices": {
                "requests": [
                    request(
                        "gpu",
                        "gpu.nvidia.com",
                        'device.attributes["gpu.nvidia.com"].productName.lowerAscii().contains("h100") && '
                        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
                    ),
                    request("nic", "dranet", 'device.attributes["dra.net"].rdma == true'),
                ],
                "constraints": [{"matchAttribute": "resource.kubernetes.io/numaNode"}],
            }
        },
    }
    [found] = simulated(rootport, tmp_path, [convert(claim).object]).values()
    assert len(found["devices"]) == 2, found
