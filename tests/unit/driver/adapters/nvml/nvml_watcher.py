"""A process that holds an NVML session on a machine of the stub, reads its GPUs' health and listens to their errors."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, cast

from driver.health.readings import GpuReading, XidEvent
from driver.model.devices import Gpu
from tests.support.stub_nvml import Machine, StubNvml

__all__ = ["Watcher", "watcher"]

# It answers each request: a method's name and arguments, in pickles.
_CHILD: Final = """\
import contextlib, pickle, sys, threading
from driver.adapters.nvml.events import XidEvents
from driver.adapters.nvml.health import read_gpu_health
from driver.adapters.nvml.session import session

gpus = pickle.load(sys.stdin.buffer)
with contextlib.ExitStack() as stack:
    stack.enter_context(session())
    events, waiting, told = None, None, []
    while True:
        try:
            request, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        try:
            if request == "read":
                answer = read_gpu_health(gpus)
            elif request == "listen":
                events = stack.enter_context(XidEvents(gpus))
                answer = events.notes
            elif request == "wait":
                answer = events.wait(*arguments)
            elif request == "start_waiting":
                waiting = threading.Thread(target=lambda: told.extend(events.wait(*arguments)))
                answer = waiting.start()
            elif request == "told":
                waiting.join()
                answer = tuple(told)
            outcome = (True, answer)
        except Exception as error:
            outcome = (False, error)
        sys.stdout.buffer.write(pickle.dumps(outcome))
        sys.stdout.buffer.flush()
"""


class Watcher:
    """Asks the process; what is raised there is raised here."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def read(self) -> tuple[GpuReading, ...]:
        return cast("tuple[GpuReading, ...]", self._ask("read"))

    def listen(self) -> tuple[str, ...]:
        """From now on; the notes."""
        return cast("tuple[str, ...]", self._ask("listen"))

    def wait(self, timeout_s: float) -> tuple[XidEvent, ...]:
        return cast("tuple[XidEvent, ...]", self._ask("wait", timeout_s))

    def start_waiting(self, timeout_s: float) -> None:
        """In a thread of its own."""
        self._ask("start_waiting", timeout_s)

    def told(self) -> tuple[XidEvent, ...]:
        """What the thread was told."""
        return cast("tuple[XidEvent, ...]", self._ask("told"))

    def _ask(self, *request: object) -> Any:
        to, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        to.write(pickle.dumps(request))
        to.flush()
        returned, outcome = pickle.load(answers)
        if returned:
            return outcome
        raise outcome


@contextmanager
def watcher(stub: StubNvml, machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Watcher]:
    """Start the process; it ends on leaving."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _CHILD],
        env=stub.environment(machine),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(tuple(gpus)))
        yield Watcher(process)
