"""Does all kinds of effects, each within a deadline, so that one that hangs does not block the others.

A call of NVML hangs for good on some broken GPUs, and a program that was started may do so too. The kubelet's calls
must end nevertheless, and those for the other devices must work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from driver.errors import NodeError, RootportError
from driver.plan.effects import (
    ConfigureVf,
    CreateMigDevice,
    Effect,
    GpuEffect,
    LeaveMigMode,
    LendInterface,
    RunMpsDaemon,
    SetTimeSlice,
)
from kubeletplugin.effects.effector import EffectHangsError, Effector, ExclusiveEffector, Outcome
from kubeletplugin.internal_errors import internal_error

__all__ = ["HostEffects"]

_DEADLINE_S: Final = 20.0
"""The kubelet gives a call up after 45 s (pkg/kubelet/cm/dra/plugin of Kubernetes 1.36). Switching MIG mode takes some
seconds, and so does a daemon's start."""


class HostEffects:
    """Does and undoes every kind of effect: an :class:`ExclusiveEffector`. Safe to call from several threads.

    An effect runs in a thread of its own. While one hangs, every other effect on the same GPU or function of a NIC
    fails at once: it would hang as well, and two calls at one device could come to their ends in any order.

    Args:
        mig: Makes MIG devices, and switches MIG mode off.
        time_slices: Sets time slices.
        mps: Runs MPS daemons.
        vfs: Sets how NICs treat their virtual functions.
        interfaces: Lends network interfaces to pods.
        deadline_s: Seconds after which an effect counts as hanging.
    """

    def __init__(
        self,
        *,
        mig: ExclusiveEffector[CreateMigDevice | LeaveMigMode],
        time_slices: Effector[SetTimeSlice],
        mps: Effector[RunMpsDaemon],
        vfs: Effector[ConfigureVf],
        interfaces: ExclusiveEffector[LendInterface],
        deadline_s: float = _DEADLINE_S,
    ) -> None:
        self._mig = mig
        self._time_slices = time_slices
        self._mps = mps
        self._vfs = vfs
        self._interfaces = interfaces
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}

    def refuse_others(self, effect: Effect) -> None:
        """Refuse a MIG device where somebody else has made one, and an interface that somebody else has taken.

        Nobody else makes daemons of Rootport's. Time slices, and a VF's settings, have former values to go back to.

        Raises:
            EffectHangsError: It has not ended in time.
            NodeError: Somebody else has; or what is in the way.
        """
        if isinstance(effect, CreateMigDevice):
            self._guarded(effect, "looking before", lambda: self._mig.refuse_others(effect))
        elif isinstance(effect, LendInterface):
            self._guarded(effect, "looking before", lambda: self._interfaces.refuse_others(effect))

    def do(self, effect: Effect) -> Outcome:
        """Do an effect; one that is there already is left as it is.

        Raises:
            EffectHangsError: It has not ended in time.
            NodeError: What is in the way.
        """
        return self._guarded(effect, "doing", self._calls(effect)[0])

    def undo(self, effect: Effect) -> None:
        """Undo an effect; one that was never done is undone already.

        Raises:
            EffectHangsError: It has not ended in time.
            NodeError: What is in the way.
        """
        self._guarded(effect, "undoing", self._calls(effect)[1])

    def _calls(self, effect: Effect) -> tuple[Callable[[], Outcome], Callable[[], None]]:
        """Return what does the effect, and what undoes it."""
        match effect:
            case CreateMigDevice() | LeaveMigMode():
                return partial(self._mig.do, effect), partial(self._mig.undo, effect)
            case SetTimeSlice():
                return partial(self._time_slices.do, effect), partial(self._time_slices.undo, effect)
            case RunMpsDaemon():
                return partial(self._mps.do, effect), partial(self._mps.undo, effect)
            case ConfigureVf():
                return partial(self._vfs.do, effect), partial(self._vfs.undo, effect)
            case LendInterface():
                return partial(self._interfaces.do, effect), partial(self._interfaces.undo, effect)

    def _guarded(self, effect: Effect, doing: str, act: Callable[[], Outcome]) -> Outcome:
        what = f"{doing} {effect.kind}"
        card, why = ("GPU", _GPU_HANGS) if isinstance(effect, GpuEffect) else ("NIC", _NIC_HANGS)
        target = effect.target
        with self._lock:
            if other := self._running.get(target):
                raise NodeError(f"{what}: {other} has not ended yet on that {card}", hint=why)
            self._running[target] = what
        call = _Call(act, ended=lambda: self._ended(target))
        try:
            threading.Thread(target=call.run, name=f"effect-{target}", daemon=True).start()
        except RuntimeError as no_thread:
            self._ended(target)
            hint = "the plugin's container has reached its limit of processes and threads"
            raise NodeError(f"{what}: {no_thread}", hint=hint) from no_thread
        if not call.done.wait(self._deadline_s):
            raise EffectHangsError(f"{what} has not ended after {self._deadline_s:g} s", hint=why)
        match call.outcome:
            case RootportError() as error:
                raise error
            case BaseException() as error:
                # A bug must keep neither a claim from being unprepared nor the others from being prepared.
                raise internal_error("effects", f"{what} on {target}", error)
            case outcome:
                return outcome

    def _ended(self, target: str) -> None:
        with self._lock:
            del self._running[target]


_NIC_HANGS: Final = "the NIC's driver or firmware does not answer: see dmesg on the node; it is tried again"
_GPU_HANGS: Final = "NVML hangs on some broken GPUs: see nvidia-smi and dmesg on the node; it is tried again"


class _Call:
    """One effect in its thread."""

    def __init__(self, act: Callable[[], Outcome], *, ended: Callable[[], None]) -> None:
        self._act = act
        self._ended = ended
        self.outcome: Outcome | BaseException = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.outcome = self._act()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self.outcome = error
        # In this order: whoever waits may begin the device's next effect at once.
        self._ended()
        self.done.set()
