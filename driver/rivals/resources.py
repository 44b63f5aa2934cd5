"""The extended resources by which other systems give out GPUs, RDMA NICs and FPGAs.

Sources of the names: the documentation and source of NVIDIA/k8s-device-plugin, ROCm/k8s-device-plugin,
Project-HAMi/HAMi, koordinator-sh/koordinator (apis/extension), elastic-ai/elastic-gpu-agent, Tencent's TKE qGPU and
tkestack/gpu-manager, volcano-sh/devices, AliyunContainerService/gpushare-device-plugin,
Mellanox/k8s-rdma-shared-dev-plugin (prefix ``rdma``), k8snetworkplumbingwg/sriov-network-device-plugin (prefix
``intel.com`` unless told otherwise), the SR-IOV network operator (``openshift.io``) and NVIDIA's network operator
(``nvidia.com/hostdev``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from driver.model.devices import Device, Fpga, Gpu, RdmaNic

__all__ = ["ResourceRule", "resource_rule"]

# HAMi's plugin registers nvidia.com/gpu as well. What else it says of a node, in annotations, stays when it has gone.
_NVIDIA_HINT: Final = (
    "keep NVIDIA's device plugin off this node (with the GPU Operator: kubectl label node {node} "
    "nvidia.com/gpu.deploy.device-plugin=false --overwrite; else take the node out of its DaemonSet's node selector), "
    "or, where it is HAMi's, that one (kubectl label node {node} gpu-, where HAMi runs on nodes with the label gpu=on)"
)
_KOORDINATOR_HINT: Final = (
    "keep Koordinator from managing this node's devices (koord-device-daemon, and its Device object)"
)
_GENERIC_HINT: Final = "take this node out of that plugin's DaemonSet"
_SRIOV_HINT: Final = (
    "take these functions out of the SR-IOV device plugin's configuration, or this node out of its DaemonSet"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """What the name of an extended resource says of the devices behind it.

    Attributes:
        concerns: Whether a card may be given out by that name.
        is_certain: Whether the name is of that kind of devices alone. An administrator chooses the names of SR-IOV
            plugins, and may give them to cards that Rootport does not publish.
        hint: What to do, with ``{node}`` for the node's name.
    """

    concerns: Callable[[Device], bool]
    is_certain: bool = True
    hint: str = _GENERIC_HINT


def _is_nvidia(device: Device) -> bool:
    return isinstance(device, Gpu) and device.vendor == "nvidia"


def _is_amd(device: Device) -> bool:
    return isinstance(device, Gpu) and device.vendor == "amd"


def _is_gpu(device: Device) -> bool:
    return isinstance(device, Gpu)


def _is_nic(device: Device) -> bool:
    return isinstance(device, RdmaNic)


def _is_fpga(device: Device) -> bool:
    return isinstance(device, Fpga)


def _is_nvidia_or_nic(device: Device) -> bool:
    return _is_nvidia(device) or _is_nic(device)


# The first that matches a whole name counts.
_RULES: Final[tuple[tuple[re.Pattern[str], ResourceRule], ...]] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"(?:koordinator\.sh|kubernetes\.io)/gpu.*", ResourceRule(concerns=_is_gpu, hint=_KOORDINATOR_HINT)),
        (r"(?:koordinator\.sh|kubernetes\.io)/rdma", ResourceRule(concerns=_is_nic, hint=_KOORDINATOR_HINT)),
        (r"(?:koordinator\.sh|kubernetes\.io)/fpga", ResourceRule(concerns=_is_fpga, hint=_KOORDINATOR_HINT)),
        # HAMi's names for shares; NVIDIA's device plugin; HAMi's plugin, which registers nvidia.com/gpu as well.
        (
            r"nvidia\.com/(?:gpu|gpu\.shared|gpumem|gpumem-percentage|gpucores|mig-.*)",
            ResourceRule(concerns=_is_nvidia, hint=_NVIDIA_HINT),
        ),
        (r"amd\.com/xilinx.*", ResourceRule(concerns=_is_fpga)),
        # A GPU's partitions have names such as amd.com/cpx_nps4.
        (r"amd\.com/(?:gpu.*|[a-z]px_.*)", ResourceRule(concerns=_is_amd)),
        (
            r"(?:tke\.cloud\.tencent\.com/qgpu-|tencent\.com/vcuda-|elasticgpu\.io/|ali(?:yun|babacloud)\.com/gpu|volcano\.sh/v?gpu-).*",
            ResourceRule(concerns=_is_gpu),
        ),
        (r"rdma/.*", ResourceRule(concerns=_is_nic)),
        (r"xilinx\.com/.*|fpga\.intel\.com/.*|intel\.com/fpga.*", ResourceRule(concerns=_is_fpga)),
        (
            r"nvidia\.com/hostdev.*|mellanox\.com/.*|openshift\.io/.*|intel\.com/.*",
            ResourceRule(concerns=_is_nic, is_certain=False, hint=_SRIOV_HINT),
        ),
        # An SR-IOV plugin's own choice of name, or a GPU that KubeVirt passes through, which is named after its model.
        (
            r"nvidia\.com/.*",
            ResourceRule(
                concerns=_is_nvidia_or_nic, is_certain=False, hint=f"{_GENERIC_HINT}, or out of its configuration"
            ),
        ),
    )
)


def resource_rule(resource: str) -> ResourceRule | None:
    """Return what the name of an extended resource says; None where it says nothing about these devices."""
    return next((rule for pattern, rule in _RULES if pattern.fullmatch(resource)), None)
