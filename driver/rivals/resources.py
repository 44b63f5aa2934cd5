"""The extended resources by which other systems give out GPUs, RDMA NICs and FPGAs, and whose DaemonSets these are.

Sources of the names, and of the words in the names of the DaemonSets (as the projects' charts and manifests have them):
the documentation and source of NVIDIA/k8s-device-plugin, ROCm/k8s-device-plugin, Project-HAMi/HAMi,
koordinator-sh/koordinator (apis/extension), elastic-ai/elastic-gpu-agent, Tencent's TKE qGPU and tkestack/gpu-manager,
volcano-sh/devices, AliyunContainerService/gpushare-device-plugin, Mellanox/k8s-rdma-shared-dev-plugin (prefix
``rdma``), k8snetworkplumbingwg/sriov-network-device-plugin (prefix ``intel.com`` unless told otherwise), the SR-IOV
network operator (``openshift.io``) and NVIDIA's network operator (``nvidia.com/hostdev``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from driver.api.quantity import Quantity
from driver.model.devices import Device, Fpga, Gpu, RdmaNic

__all__ = ["GENERIC_HINT", "GPU_OPERATOR", "ResourceRule", "is_called_after", "is_some", "known_words", "resource_rule"]

GPU_OPERATOR: Final = "nvidia.com/gpu.deploy."
"""How the labels begin by which NVIDIA's GPU Operator puts each of its parts on a node, or with false does not."""

# HAMi's plugin registers nvidia.com/gpu as well. What else it says of a node, in annotations, stays when it has gone.
_NVIDIA_HINT: Final = (
    "keep NVIDIA's device plugin off this node (with the GPU Operator: kubectl label node {node} "
    f"{GPU_OPERATOR}device-plugin=false --overwrite; else take the node out of its DaemonSet's node selector), "
    "or, where it is HAMi's, that one (kubectl label node {node} gpu-, where HAMi runs on nodes with the label gpu=on)"
)
_KOORDINATOR_HINT: Final = (
    "keep Koordinator from managing this node's devices (koord-device-daemon, and its Device object)"
)
GENERIC_HINT: Final = "take this node out of that plugin's DaemonSet"
"""What to do about a device plugin of which nothing else is known."""

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
        daemon_sets: Words in the names of the DaemonSets of its device plugins; with ``-`` for several in a row.
        is_written: Whether another program than the kubelet writes it into the Node, where it stays for good.
    """

    concerns: Callable[[Device], bool]
    is_certain: bool = True
    hint: str = GENERIC_HINT
    daemon_sets: frozenset[str] = frozenset()
    is_written: bool = False


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


_KOORDINATOR: Final = frozenset({"koord", "koordlet"})
_NVIDIA: Final = frozenset({"nvidia", "hami", "vgpu"})
_FPGA: Final = frozenset({"fpga", "xilinx"})
_SRIOV: Final = frozenset({"sriov", "sr-iov"})
# A vendor's name is in the names of plugins of its other devices, too.
_VENDORS: Final = frozenset({"nvidia"})


def _koordinator(concerns: Callable[[Device], bool]) -> ResourceRule:
    return ResourceRule(concerns=concerns, hint=_KOORDINATOR_HINT, daemon_sets=_KOORDINATOR, is_written=True)


def _gpus(*daemon_sets: str, is_written: bool = False) -> ResourceRule:
    return ResourceRule(concerns=_is_gpu, daemon_sets=frozenset(daemon_sets), is_written=is_written)


# The first that matches a whole name counts.
_RULES: Final[tuple[tuple[re.Pattern[str], ResourceRule], ...]] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        # koord-manager writes these, of what koord-device-daemon has found.
        (r"(?:koordinator\.sh|kubernetes\.io)/gpu.*", _koordinator(_is_gpu)),
        (r"(?:koordinator\.sh|kubernetes\.io)/rdma", _koordinator(_is_nic)),
        (r"(?:koordinator\.sh|kubernetes\.io)/fpga", _koordinator(_is_fpga)),
        # HAMi's names for shares; NVIDIA's device plugin; HAMi's plugin, which registers nvidia.com/gpu as well.
        (
            r"nvidia\.com/(?:gpu|gpu\.shared|gpumem|gpumem-percentage|gpucores|mig-.*)",
            ResourceRule(concerns=_is_nvidia, hint=_NVIDIA_HINT, daemon_sets=_NVIDIA),
        ),
        (r"amd\.com/xilinx.*", ResourceRule(concerns=_is_fpga, daemon_sets=_FPGA)),
        # A GPU's partitions have names such as amd.com/cpx_nps4.
        (
            r"amd\.com/(?:gpu.*|[a-z]px_.*)",
            ResourceRule(concerns=_is_amd, daemon_sets=frozenset({"amdgpu", "rocm"})),
        ),
        (
            r"(?:tke\.cloud\.tencent\.com/qgpu-|tencent\.com/vcuda-|elasticgpu\.io/).*",
            _gpus("qgpu", "elastic-gpu", "elasticgpu", "gpu-manager"),
        ),
        # Its device plugin writes the count itself, at its start.
        (r"ali(?:yun|babacloud)\.com/gpu-count", _gpus("gpushare", is_written=True)),
        (r"ali(?:yun|babacloud)\.com/gpu.*", _gpus("gpushare")),
        (r"volcano\.sh/v?gpu-.*", _gpus("volcano")),
        (r"rdma/.*", ResourceRule(concerns=_is_nic, daemon_sets=frozenset({"rdma"}))),
        (
            r"xilinx\.com/.*|fpga\.intel\.com/.*|intel\.com/fpga.*",
            ResourceRule(concerns=_is_fpga, daemon_sets=_FPGA),
        ),
        (
            r"nvidia\.com/hostdev.*|mellanox\.com/.*|openshift\.io/.*|intel\.com/.*",
            ResourceRule(concerns=_is_nic, is_certain=False, hint=_SRIOV_HINT, daemon_sets=_SRIOV),
        ),
        # An SR-IOV plugin's own choice of name, or a GPU that KubeVirt passes through, which is named after its model.
        (
            r"nvidia\.com/.*",
            ResourceRule(
                concerns=_is_nvidia_or_nic,
                is_certain=False,
                hint=f"{GENERIC_HINT}, or out of its configuration",
                daemon_sets=_NVIDIA | _SRIOV,
            ),
        ),
    )
)
_WORDS: Final = frozenset(word for _, rule in _RULES for word in rule.daemon_sets)


def resource_rule(resource: str) -> ResourceRule | None:
    """Return what the name of an extended resource says; None where it says nothing about these devices."""
    return next((rule for pattern, rule in _RULES if pattern.fullmatch(resource)), None)


def is_called_after(daemon_set: str, rule: ResourceRule) -> bool:
    """Whether a DaemonSet is called as a device plugin of such a resource is, and not as one of other devices.

    Args:
        daemon_set: Its name, without its namespace.
        rule: The rule of the resource.
    """
    words = known_words(daemon_set)
    return bool((words - _VENDORS or words) & rule.daemon_sets)


def known_words(daemon_set: str) -> set[str]:
    """Return the words in a DaemonSet's name that say whose device plugin it is; empty for any other name."""
    name = f"-{daemon_set.lower().replace('.', '-')}-"
    return {word for word in _WORDS if f"-{word}-" in name}


def is_some(amount: str) -> bool:
    """Whether a Node has any of an extended resource.

    Args:
        amount: Its quantity in ``status.capacity``; one that cannot be read is better one warning too many.
    """
    try:
        return Quantity(amount).ceil() > 0
    except ValueError:
        return True
