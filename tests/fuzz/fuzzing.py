"""Gives a reader what nobody should send, and holds it to bounds of time and memory.

What once failed comes first: the files of ``corpus/<target>``. Then come inputs that are made up. In ordinary tests
these are the same few every time. With ``ROOTPORT_FUZZ_SECONDS`` (``make fuzz``) they are others each time, for so many
seconds a target, unless ``ROOTPORT_FUZZ_SEED`` names those of an earlier run; what fails is made shorter and kept in
the corpus.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.support.paths import REPO

__all__ = ["CORPUS", "REPO", "Target", "check_message"]

CORPUS: Final = Path(__file__).with_name("corpus")
_MIB: Final = 1024**2
_SHRINKING_S: Final = 10.0


class _TooSlowError(BaseException):
    """The limit is passed. No ``except Exception`` of what is tried may take it for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is tried.

    Attributes:
        name: The folder of the corpus.
        make: Makes up an input; the same of the same ``Random``.
        check: Has it read, and fails where an answer is wrong; what it raises is a failure.
        examples: How many inputs are made up in ordinary tests.
        seconds: The most processor time that an input may take, and as much again for each MiB of it.
        mebibytes: The most memory that it may take meanwhile.
    """

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes], object]
    examples: int = 200
    seconds: float = 4.0
    mebibytes: int = 150

    def run(self) -> None:
        """Try the corpus, then what is made up; fail the test with the first input that is a failure."""
        for path in sorted((CORPUS / self.name).glob("*")):
            if (failure := self._failure(path.read_bytes())) is not None:
                pytest.fail(f"{path.relative_to(REPO)}: {_shown(failure)}")
        budget = os.environ.get("ROOTPORT_FUZZ_SECONDS")
        seed = os.environ.get("ROOTPORT_FUZZ_SEED") or (secrets.token_hex(4) if budget else "0")
        for number in _numbers(self.examples, budget):
            data = self.make(Random(f"{seed}/{self.name}/{number}"))
            if (failure := self._failure(data)) is not None:
                self._report(data, failure, f"input {number} of ROOTPORT_FUZZ_SEED={seed}", keep=budget is not None)

    def _failure(self, data: bytes) -> BaseException | None:
        """What is wrong with the answer to one input; None where nothing is."""
        limit = self.seconds * (1 + len(data) / _MIB)
        begin, peak = time.process_time(), _peak(fresh=True)
        try:
            with _alarm(2 * limit):
                self.check(data)
        except (Exception, _TooSlowError, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever it is, it is told
            return error
        taken, grown = time.process_time() - begin, _peak() - peak
        if taken > limit:
            return _TooSlowError(f"took {taken:.1f} s, and at most {limit:.1f} are allowed")
        if grown > self.mebibytes * _MIB:
            return MemoryError(f"took {grown // _MIB} MiB, and at most {self.mebibytes} are allowed")
        return None

    def _report(self, data: bytes, failure: BaseException, origin: str, *, keep: bool) -> None:
        if keep:
            data = self._shortened(data, type(failure))
            path = CORPUS / self.name / hashlib.sha256(data).hexdigest()[:12]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            origin += f", kept as {path.relative_to(REPO)}"
        raise AssertionError(f"{self.name}: {origin}: {_shown(failure)}\n{data[:500]!r}") from failure

    def _shortened(self, data: bytes, kind: type[BaseException]) -> bytes:
        """The input without the parts that its failure does not need, as far as time allows."""
        until = time.monotonic() + _SHRINKING_S
        size = len(data) // 2
        while size:
            at = 0
            while at < len(data) and time.monotonic() < until:
                without = data[:at] + data[at + size :]
                if type(self._failure(without)) is kind:
                    data = without
                else:
                    at += size
            size //= 2
        return data


def check_message(error: Exception) -> None:
    """Fail where an error that a person is to read is a book."""
    assert len(str(error)) < 20_000


def _shown(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {str(failure)[:500]}"


def _numbers(examples: int, budget: str | None) -> Iterator[int]:
    if budget is None:
        yield from range(examples)
        return
    until = time.monotonic() + float(budget)
    for number in count():
        if time.monotonic() > until:
            return
        yield number


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends what takes so much processor time of this process, so that one endless input does not hang the tests."""

    def ring(*_: object) -> None:
        raise _TooSlowError(f"was still busy after {seconds:.1f} s of processor time")

    former = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def _peak(*, fresh: bool = False) -> int:
    """The most memory that this process has had, in bytes; ``fresh``: from now on (Linux, proc_pid_clear_refs(5))."""
    if fresh:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    warnings.warn("this kernel does not tell how much memory a process has had", stacklevel=1)
    return 0
