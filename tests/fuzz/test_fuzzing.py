"""The driver itself finds what it is there to find."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import fuzzing
from tests.fuzz.fuzzing import Target


@pytest.fixture(autouse=True)
def corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("ROOTPORT_FUZZ_SECONDS", raising=False)
    monkeypatch.delenv("ROOTPORT_FUZZ_SEED", raising=False)
    monkeypatch.setattr(fuzzing, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(fuzzing, "REPO", tmp_path)
    return tmp_path / "corpus"


def _made(random: Random) -> bytes:
    return b"a" * random.randrange(50) + random.choice((b"", b"!")) + b"b" * random.randrange(50)


def _refuse(data: bytes) -> None:
    if b"!" in data:
        raise ValueError("no")


def _busy(data: bytes) -> None:
    begin = time.process_time()
    while b"!" in data and time.process_time() - begin < 1:
        pass


def _endless(data: bytes) -> None:
    while b"!" in data:
        pass


def _greedy(data: bytes) -> None:
    if b"!" in data:
        bytearray(300 * 1024**2)[::4096] = b"x" * (300 * 256)


@pytest.mark.parametrize(
    ("check", "seconds", "told"),
    [
        (_refuse, 0.3, "ValueError: no"),
        (_busy, 0.3, "TooSlow"),
        (_endless, 0.3, "still busy"),
        # A busy machine takes its time over 300 MiB of new pages, and this is not about time.
        (_greedy, 30, "MiB, and at most 150"),
    ],
    ids=["an error", "slow", "endless", "large"],
)
def test_what_is_wrong_is_told(check: Callable[[bytes], None], seconds: float, told: str, corpus: Path) -> None:
    with pytest.raises(AssertionError, match=rf"input \d+ of ROOTPORT_FUZZ_SEED=0.*{told}"):
        Target(name="t", make=_made, check=check, seconds=seconds).run()
    assert not corpus.exists()


def test_what_is_right_passes_and_is_the_same_every_time() -> None:
    seen: list[bytes] = []
    for _ in range(2):
        Target(name="t", make=_made, check=seen.append, examples=20).run()
    assert len(set(seen)) > 5
    assert seen[:20] == seen[20:]


def test_what_failed_is_kept_short_and_comes_first_from_then_on(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    monkeypatch.setenv("ROOTPORT_FUZZ_SECONDS", "30")
    with pytest.raises(AssertionError, match=r"ROOTPORT_FUZZ_SEED=[0-9a-f]{8}, kept as corpus/t/"):
        Target(name="t", make=_made, check=_refuse).run()
    (kept,) = (corpus / "t").iterdir()
    assert kept.read_bytes() == b"!"
    monkeypatch.delenv("ROOTPORT_FUZZ_SECONDS")
    with pytest.raises(pytest.fail.Exception, match=rf"{kept.name}: ValueError: no"):
        Target(name="t", make=lambda _: b"", check=_refuse).run()
