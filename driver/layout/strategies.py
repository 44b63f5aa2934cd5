"""Which strategy a GPU offers to the claims that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver.model.devices import Gpu

if TYPE_CHECKING:  # most plugins have read none, and need not load it
    from driver.api.gpu_policies import GpuPolicy, ShareStrategy

__all__ = ["offered_strategy"]

_USUAL: Final[ShareStrategy] = "timeSlicing"
_VOLTA: Final = (7, 0)


def offered_strategy(gpu: Gpu, policy: GpuPolicy | None) -> ShareStrategy:
    """Return the one strategy by which claims share a GPU.

    Time slices where the policy's strategy is not for such GPUs: MPS and HAMi-core are for NVIDIA's, and MPS keeps no
    limits before Volta (docs.nvidia.com/deploy/mps). So a policy for all GPUs can name either.

    Args:
        gpu: The GPU.
        policy: The rules for it; None for the defaults.
    """
    wanted = _USUAL if policy is None else policy.share_strategy
    if gpu.vendor != "nvidia" or (wanted == "mps" and _before_volta(gpu.cuda_compute_capability)):
        return _USUAL
    return wanted


def _before_volta(compute_capability: str | None) -> bool:
    major, _, minor = (compute_capability or "").partition(".")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) < _VOLTA
