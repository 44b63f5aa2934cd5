"""Which DaemonSets are the device plugins of certain resources: no object says so, so their names have to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from driver.migration.facts import DaemonSetFacts

__all__ = ["plugins_of"]

# The words in the names of the DaemonSets (as their projects' charts and manifests call them), by the resource.
_WORDS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"nvidia\.com/hostdev.*|(?:openshift|intel|mellanox)\..*", ("sriov", "sr-iov")),
        (r"nvidia\.com/.*", ("nvidia", "hami", "vgpu")),
        (r"amd\.com/xilinx.*|xilinx\.com/.*|.*fpga.*", ("fpga", "xilinx")),
        (r"amd\.com/.*", ("amd", "rocm")),
        (r"rdma/.*", ("rdma",)),
        (r"(?:koordinator\.sh|kubernetes\.io)/.*", ("koord",)),
        (r"(?:tke\.cloud\.tencent\.com|tencent\.com|elasticgpu\.io)/.*", ("qgpu", "elastic-gpu", "gpu-manager")),
        (r"ali(?:yun|babacloud)\.com/.*", ("gpushare",)),
        (r"volcano\.sh/.*", ("volcano",)),
    )
)


def plugins_of(plugins: Sequence[DaemonSetFacts], resources: Iterable[str]) -> tuple[DaemonSetFacts, ...]:
    """Return those that are called as the plugins of these resources are.

    Args:
        plugins: DaemonSets of device plugins, of whatever devices.
        resources: The names of extended resources.
    """
    words = {word for name in resources for word in _words(name)}
    return tuple(item for item in plugins if any(word in item.key.lower() for word in words))


def _words(resource: str) -> tuple[str, ...]:
    return next((words for pattern, words in _WORDS if pattern.fullmatch(resource)), ())
