"""The page of metrics of a plugin with two GPUs and a NIC, as the product writes such pages."""

from __future__ import annotations

from typing import Final

from driver.adapters.http.metrics_page import MetricsPage
from driver.status.metric_family import Family, Sample, family

__all__ = ["plugin_page"]

_GIB: Final = 1024**3
_CARD: Final = 81559 * 1024**2
_SHARE: Final = ("node", "device", "namespace", "claim", "request", "share_id", "pod", "container")


def plugin_page(node: str) -> str:
    """What /metrics of the node's plugin says."""
    share = (node, "gpu-1", "ml", "notebook", "gpu", "s1", "notebook-0")
    other = (node, "gpu-1", "web", "infer", "gpu", "s2", "", "")
    whole = (node, "gpu-0", "ml", "train", "gpu", "", "train-0", "main")
    families = [
        _of_devices(
            "rootport_device_info",
            ("type", "index", "model"),
            [
                ((node, "gpu-0", "gpu", "0", "NVIDIA H100 80GB HBM3"), 1),
                ((node, "gpu-1", "gpu", "1", "NVIDIA H100 80GB HBM3"), 1),
                ((node, "gpu-10", "gpu", "10", "NVIDIA H100 80GB HBM3"), 1),
                ((node, "rdma-0", "rdma", "0", "ConnectX-7"), 1),
            ],
        ),
        _of_devices("rootport_device_healthy", (), [((node, "gpu-0"), 1), ((node, "gpu-10"), 0)]),
        _of_devices("rootport_gpu_utilization_ratio", (), [((node, "gpu-0"), 0.97), ((node, "gpu-1"), 0.05)]),
        _of_devices(
            "rootport_gpu_memory_used_bytes", (), [((node, "gpu-0"), 71.5 * _GIB), ((node, "gpu-1"), 9.75 * _GIB)]
        ),
        _of_devices("rootport_device_memory_capacity_bytes", (), [((node, f"gpu-{at}"), _CARD) for at in (0, 1, 10)]),
        _of_devices(
            "rootport_device_memory_allocated_bytes", (), [((node, "gpu-0"), _CARD), ((node, "gpu-1"), 40 * _GIB)]
        ),
        _of_devices("rootport_device_core_allocated_ratio", (), [((node, "gpu-0"), 1), ((node, "gpu-1"), 0.5)]),
        _of_devices("rootport_gpu_temperature_celsius", (), [((node, "gpu-0"), 71), ((node, "gpu-1"), 40)]),
        _of_devices("rootport_gpu_power_watts", (), [((node, "gpu-0"), 652.4), ((node, "gpu-1"), 90.1)]),
        family(
            "gauge",
            "rootport_share_core_ratio",
            "Core.",
            _SHARE,
            [(whole, 1.0), ((*share, "main"), 0.3), ((*share, "side"), 0.3), (other, 0.2)],
        ),
        family("counter", "rootport_other_total", "Not read.", (), [((), 3.0)]),
    ]
    _, page = MetricsPage(lambda: families)("text/plain")
    return page.decode()


def _of_devices(name: str, labels: tuple[str, ...], samples: list[Sample]) -> Family:
    return family("gauge", name, "For a test.", ("node", "device", *labels), samples)
