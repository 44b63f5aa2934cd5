"""Sets a GPU's time slice: how long one process computes before another one may.

NVML has no call for it; ``nvidia-smi compute-policy -i <uuid> --set-timeslice <0..3>`` has it (NVIDIA's own DRA driver,
``setTimeSlice``, calls it so). The GPU forgets it when the driver is loaded anew.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from driver.errors import NodeError
from driver.plan.effects import SetTimeSlice, TimeSliceInterval
from kubeletplugin.effects.host_command import HostPrograms, NoProgramError
from kubeletplugin.node.roots import Roots

__all__ = ["TimeSlices"]

_NUMBERS: Final[dict[TimeSliceInterval, int]] = {"Default": 0, "Short": 1, "Medium": 2, "Long": 3}
_TIMEOUT_S: Final = 10.0
# nvidia-smi(1), RETURN VALUE.
_NOT_SUPPORTED: Final = 3
_NO_SUCH_GPU: Final = 6
_NO_DRIVER: Final = 9
_GPU_LOST: Final = 15


class TimeSlices:
    """Does and undoes :class:`SetTimeSlice`; both may be repeated.

    Args:
        roots: Where the host and its driver are.
    """

    def __init__(self, roots: Roots) -> None:
        self._programs = HostPrograms(roots)

    def do(self, effect: SetTimeSlice) -> None:
        """Set the time slice.

        Raises:
            NodeError: nvidia-smi is not there, hangs, or refuses.
        """
        # A GPU whose time slice cannot be set has the default one.
        self._set(effect, effect.interval, {_NOT_SUPPORTED} if effect.interval == "Default" else set())

    def undo(self, effect: SetTimeSlice) -> None:
        """Set the driver's default time slice; where the driver or the GPU is gone, so is the time slice.

        Raises:
            NodeError: nvidia-smi hangs, or refuses.
        """
        with suppress(NoProgramError):
            self._set(effect, "Default", {_NOT_SUPPORTED, _NO_SUCH_GPU, _NO_DRIVER, _GPU_LOST})

    def _set(self, effect: SetTimeSlice, interval: TimeSliceInterval, also_good: Collection[int]) -> None:
        doing = f"{effect.gpu} ({effect.uuid}): setting the time slice to {interval}"
        arguments = ("compute-policy", "-i", effect.uuid, "--set-timeslice", str(_NUMBERS[interval]))
        finished = self._programs.run("nvidia-smi", arguments, doing=doing, timeout_s=_TIMEOUT_S)
        if finished.status != 0 and finished.status not in also_good:
            hint = f"time slices need a GPU of Volta or later; try on the node: nvidia-smi {' '.join(arguments)}"
            raise NodeError(f"{doing}: nvidia-smi failed: {finished}", hint=hint)
