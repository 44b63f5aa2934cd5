"""NVML events: errors that NVIDIA's driver reports while a thread waits for them.

Source of every call, number and error: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import pynvml

from driver.adapters.nvml.device import DEFAULT_HINT, device_at
from driver.adapters.nvml.session import NvmlCallError, call
from driver.errors import NodeError
from driver.health.readings import XidEvent
from driver.model.devices import DeviceName, Gpu
from driver.model.pci import PciAddress, parse_pci_address

__all__ = ["XidEvents"]

_WANTED: Final[int] = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
_DOUBLE_BIT_ECC: Final = 48
_AT_ONCE: Final = 1024
"""The most events of a storm that one wait returns; the next one returns the others."""


class XidEvents:
    """Reports the errors of GPUs from entering on, within :func:`driver.adapters.nvml.session.session`.

    ``with XidEvents(gpus) as events: events.wait(5.0)``. For one thread; others may call NVML meanwhile. A GPU without
    events is left out, with a note. An event of a MIG instance is reported for its GPU.

    Attributes:
        notes: Which GPUs report no events, and why; one sentence each.
    """

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        """Remember the GPUs; nothing is asked before entering.

        Args:
            gpus: GPUs of this machine; those of other vendors are left out.
        """
        self.notes: tuple[str, ...] = ()
        self._gpus = tuple(gpu for gpu in gpus if gpu.vendor == "nvidia")
        self._set: Any = None
        self._by_handle: dict[int | None, DeviceName] = {}

    def __enter__(self) -> Self:
        """Register for the events.

        Raises:
            NodeError: NVML has no events, or none of these GPUs reports any.
        """
        try:
            self._set = call(pynvml.nvmlEventSetCreate)
        except NvmlCallError as error:
            raise NodeError(f"NVML's events cannot be listened to: {error}", hint=DEFAULT_HINT) from error
        failed = []
        for gpu in self._gpus:
            try:
                why = self._register(gpu)
            except NvmlCallError as error:
                why = str(error)
            if why:
                failed.append(f"GPU {gpu.address}: its errors are not listened to: {why}")
        self.notes = tuple(failed)
        if not self._by_handle:
            self._free()
            why = "; ".join(failed) or "there is no GPU of NVIDIA's"
            raise NodeError(f"NVML's events cannot be listened to: {why}", hint=DEFAULT_HINT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._free()

    def wait(self, timeout_s: float) -> tuple[XidEvent, ...]:
        """Wait for the first event, and return it with those that have been reported already.

        Args:
            timeout_s: The longest wait, in seconds; then nothing is returned.

        Raises:
            NodeError: NVML failed, also because one GPU is lost (NVML does not say which, and would fail again
                at once): leave, end the session, wait a little, and start over.
        """
        found: list[XidEvent] = []
        milliseconds = int(timeout_s * 1000)
        for _ in range(_AT_ONCE):
            try:
                data = call(pynvml.nvmlEventSetWait_v2, self._set, milliseconds)
            except NvmlCallError as error:
                if error.code == pynvml.NVML_ERROR_TIMEOUT or found:  # what else it is comes again with the next wait
                    break
                raise NodeError(f"NVML's events cannot be waited for: {error}", hint=DEFAULT_HINT) from error
            event = self._event(data)
            if event is not None:
                found.append(event)
            milliseconds = 0
        return tuple(found)

    def _register(self, gpu: Gpu) -> str:
        """Return why the GPU cannot be registered; empty if it is."""
        device = device_at(gpu.address)
        # A type that the GPU does not have makes the whole call fail.
        types = call(pynvml.nvmlDeviceGetSupportedEventTypes, device) & _WANTED
        if not types:
            return "it tells none by events"
        call(pynvml.nvmlDeviceRegisterEvents, device, types, self._set)
        self._by_handle[_pointer(device)] = gpu.name
        return ""

    def _event(self, data: Any) -> XidEvent | None:
        at = datetime.now(UTC)
        if data.eventType == pynvml.nvmlEventTypeDoubleBitEccError:
            number = _DOUBLE_BIT_ECC
        elif data.eventType == pynvml.nvmlEventTypeXidCriticalError:
            number = int(data.eventData)
        else:
            return None
        # The handle first: of a GPU that was lost by this very error nothing can be asked.
        name = self._by_handle.get(_pointer(data.device))
        if name is None:
            address = _address(data.device)
            name = next((gpu.name for gpu in self._gpus if gpu.address == address), None)
            if name is None and address is not None:
                return None  # a GPU that was not asked for
        return XidEvent(device=name, xid=number, at=at)

    def _free(self) -> None:
        self._by_handle.clear()
        freed, self._set = self._set, None
        if freed is not None:
            with suppress(NvmlCallError):
                call(pynvml.nvmlEventSetFree, freed)


def _pointer(device: Any) -> int | None:
    return ctypes.cast(device, ctypes.c_void_p).value if device else None


def _address(device: Any) -> PciAddress | None:
    if not device:
        return None
    try:
        return parse_pci_address(call(pynvml.nvmlDeviceGetPciInfo, device).busId)
    except (NvmlCallError, ValueError):  # UnicodeDecodeError is one
        return None
