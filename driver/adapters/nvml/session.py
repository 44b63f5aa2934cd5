"""Starts and ends NVML and calls it, for all other modules of this package.

Source of every call, number and error: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import pynvml

from driver.errors import NodeError
from driver.model.pci import PciAddress, parse_pci_address

__all__ = ["ABSENT", "ABSENT_NUMBER", "NvmlCallError", "NvmlReader", "NvmlUnavailableError", "call", "session"]

_T = TypeVar("_T")

ABSENT: Final = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
"""The errors that mean that the part lacks the feature, or that the installed driver is older than the call."""

ABSENT_NUMBER: Final = ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT}
"""The same errors for a call with a number, of a link or a profile, that an older library may not know."""

_INIT_ERRORS: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded",
        "load it with `modprobe nvidia`; if that fails, `dmesg` says why",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "libnvidia-ml.so.1 and the loaded NVIDIA kernel driver are of different versions",
        "after a driver update reboot the node, or reload the nvidia kernel modules and restart this container",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "this process may not open the NVIDIA driver's device files",
        "run it as root, or give it /dev/nvidiactl and /dev/nvidia*",
    ),
}


class NvmlUnavailableError(NodeError):
    """NVML's library is missing: the machine has no NVIDIA driver, or the container does not see it."""


class NvmlCallError(Exception):
    """A call of NVML failed.

    Attributes:
        code: The error code, one of NVML_ERROR_*.
    """

    def __init__(self, function: str, error: Any) -> None:
        super().__init__(f"{function}: {error}")
        self.code: int = error.value


def call(function: Callable[..., _T], *arguments: object) -> _T:
    """Call NVML.

    Raises:
        NvmlCallError: The call failed; the message names the function.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlCallError(function.__name__, error) from error


@contextmanager
def session() -> Iterator[None]:
    """Keep NVML initialized in the body. Sessions of several threads may overlap: NVML counts them.

    Raises:
        NvmlUnavailableError: libnvidia-ml.so.1 cannot be loaded.
        NodeError: NVML is there but does not start; the message says what to do.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _init_error(error) from error
    try:
        yield
    finally:
        with suppress(pynvml.NVMLError):  # all answers are in: a failed goodbye takes nothing away
            pynvml.nvmlShutdown()


def _init_error(error: Any) -> NodeError:
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NvmlUnavailableError(
            "libnvidia-ml.so.1 not found: no NVIDIA driver here, or not mounted into the container",
            hint="for NVIDIA GPUs install the driver, or give the container the driver's libraries",
        )
    message, hint = _INIT_ERRORS.get(error.value, ("NVML does not start", "`nvidia-smi` on the node tells more"))
    return NodeError(f"{message}: nvmlInit: {error}", hint=hint)


class NvmlReader:
    """Reads facts from NVML one after the other; what fails becomes a note.

    Attributes:
        subject: The GPU or the library, for the notes.
        lost: Whether NVML has answered "GPU is lost": nothing more is read, since each further call may hang for
            seconds.
        handle: NVML's handle of the GPU; None before :meth:`bind`.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.lost = False
        self.handle: object = None
        self._notes: dict[str, None] = {}  # an ordered set: 18 links fail with one sentence

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, one sentence each."""
        return tuple(self._notes)

    def bind(self, handle: object) -> None:
        """Read from this GPU from now on."""
        self.handle = handle

    def note(self, text: str) -> None:
        """Add a note."""
        self._notes[f"{self.subject}: {text}"] = None

    def read(self, function: Callable[..., _T], *arguments: object, absent: frozenset[int] = ABSENT) -> _T | None:
        """Return the answer of a call; None if it fails. The errors in ``absent`` make no note."""
        if self.lost:
            return None
        bound = () if self.handle is None else (self.handle,)
        try:
            return call(function, *bound, *arguments)
        except UnicodeDecodeError:
            self.note(f"{function.__name__}: the answer is not UTF-8")
        except NvmlCallError as error:
            if error.code not in absent:
                self.note_error(error)
        return None

    def note_error(self, error: NvmlCallError) -> None:
        """Note the error of a call that was not made by :meth:`read`."""
        self.lost = self.lost or error.code == pynvml.NVML_ERROR_GPU_IS_LOST
        self.note(str(error))

    def text(self, function: Callable[..., str]) -> str | None:
        """Return a string that can be shown: a broken board may return anything."""
        answer = self.read(function)
        if answer is None:
            return None
        if not answer.isprintable():
            self.note(f"{function.__name__}: the answer has unprintable characters: {answer!r}")
            return None
        return answer.strip() or None

    def address(self, function: Callable[..., Any], *arguments: object) -> PciAddress | None:
        """Return the address in an nvmlPciInfo_t."""
        info = self.read(function, *arguments)
        if info is None:
            return None
        try:
            return parse_pci_address(info.busId)
        except ValueError as error:  # UnicodeDecodeError is one
            self.note(f"{function.__name__}: {error}")
            return None
