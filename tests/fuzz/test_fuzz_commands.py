"""``rootport`` with bad files: it ends with an exit code and a message, never with a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from driver.cli.main import main
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutation import json_mutated, mutated
from tests.fuzz.samples import DUMP, MANIFESTS, TOPOLOGIES, XML_TOKENS, YAML_TOKENS, objects
from tests.support.foreign_workloads import ASKS, manifest_of, workload
from tests.support.topologies import machine_file

pytestmark = pytest.mark.fuzz

_MACHINE: Final = machine_file("azure-nd-h100-v5")
_Check = Callable[[bytes], None]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., _Check]:
    """Makes a check of commands; the argument FILE is where the input stands, and OUT a folder of its own."""

    def made(name: str, *commands: tuple[object, ...]) -> _Check:
        def check(data: bytes) -> None:
            (tmp_path / name).write_bytes(data)
            for command in commands:
                words = [{"FILE": tmp_path / name, "OUT": tmp_path / "out"}.get(str(word), word) for word in command]
                monkeypatch.setattr(sys, "argv", ["rootport", *map(str, words)])
                with pytest.raises(SystemExit) as ended:
                    main()
                captured = capsys.readouterr()
                assert ended.value.code in (0, 1, 2, 3)
                assert "Traceback" not in captured.err
                assert len(captured.err) < 100_000

        return check

    return made


def _spoilt_stream(items: list[Any]) -> Callable[[Random], bytes]:
    """Objects of which some are wrong, as a stream."""

    def make(random: Random) -> bytes:
        chosen = [json_mutated(random, item, most=2) if random.randrange(3) == 0 else item for item in items]
        return b"\n---\n".join(json.dumps(item).encode() for item in chosen)

    return make


@pytest.mark.slow
def test_simulate_and_lint_end_with_a_message(runs: Callable[..., _Check]) -> None:
    def make(random: Random) -> bytes:
        if random.randrange(3) == 0:
            return mutated(random, random.choice(MANIFESTS).read_bytes(), YAML_TOKENS, most=2)
        return _spoilt_stream(list(objects(random.choice(MANIFESTS))))(random)

    machine = ("--topology", _MACHINE, "--gpu-model", "H100", "--vfs-per-nic", "2")
    simulate = ("simulate", *machine, "--claims", "FILE", "--out", "OUT")
    check = runs("claims.yaml", simulate, ("lint", "FILE", *machine, "-o", "json"), ("lint", "FILE"))
    Target(name="cli-manifests", make=make, check=check, examples=40, seconds=8).run()


@pytest.mark.slow
def test_explain_ends_with_a_message(runs: Callable[..., _Check]) -> None:
    explain = ("explain", "claim", "ml/train", "--from", "FILE")
    check = runs("dump.yaml", (*explain, "-o", "json"), explain, ("lint", MANIFESTS[0], "--from", "FILE"))
    make = _spoilt_stream([item for path in DUMP for item in objects(path)])
    Target(name="cli-dumps", make=make, check=check, examples=60, seconds=8).run()


@pytest.mark.slow
def test_convert_ends_with_a_message(runs: Callable[..., _Check]) -> None:
    asks = list(ASKS)

    def make(random: Random) -> bytes:
        kinds = ("Pod", "Deployment", "CronJob")
        items = [workload(number, random.choice(kinds), random.choice(asks)) for number in range(4)]
        if random.randrange(2) == 0:
            return mutated(random, manifest_of(*items).encode(), YAML_TOKENS, most=3)
        return _spoilt_stream(items)(random)

    check = runs(
        "all.yaml", ("convert", "FILE"), ("convert", "--check", "FILE"), ("convert", "--check", "FILE", "-o", "json")
    )
    Target(name="cli-convert", make=make, check=check, examples=60, seconds=8).run()


def test_topo_slices_and_pairs_end_with_a_message(runs: Callable[..., _Check]) -> None:
    check = runs(
        "machine.xml",
        ("topo", "FILE"),
        ("topo", "FILE", "-o", "json"),
        ("slices", "--topology", "FILE", "--gpu-model", "H100", "--vfs-per-nic", "2"),
        ("pairs", "--topology", "FILE", "--gpus", "2"),
    )
    Target(
        name="cli-topologies",
        make=lambda random: mutated(random, random.choice(TOPOLOGIES).read_bytes(), XML_TOKENS, most=3),
        check=check,
        examples=40,
        seconds=8,
    ).run()
