"""kill -9 between any two effects, and between any two system calls: the next start finishes or undoes."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kubeletplugin.state.store import STEPS
from tests.support.plan.crashes import DIED, die_at
from tests.support.preparer.machine import Machine, gpu_claim, in_child, kill_at, prepared, uid
from tests.support.preparer.nics import POOL, nic_claim
from tests.support.preparer.sharing import mig_claim, share_claim

PREPARE = [step for step in STEPS if step.startswith("prepare")]
UNPREPARE = [step for step in STEPS if step.startswith("unprepare")]
WITHOUT_ENTRY = UNPREPARE[UNPREPARE.index("unprepare: checkpoint written") :]

# With effects, so that every step is made.
CLAIMS = {
    "mig": mig_claim(2, (2, 0), (2, 3), (3, 1)),
    "mps": share_claim(2, 2),
    "time-slices": share_claim(2, 2, 3, strategy="timeSlicing", timeSlicing={"interval": "Long"}),
    "nics": nic_claim(2, POOL, POOL, vf={"vlan": 7}, interface={"mtu": 1500}),
}


def test_the_steps_are_those_that_are_made_in_their_order(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    seen: list[str] = []
    preparer = machine.preparer(machine.store(step=seen.append))
    preparer.prepare([claim])
    preparer.unprepare([claim])
    assert tuple(seen) == STEPS


@pytest.mark.parametrize("kind", CLAIMS)
@pytest.mark.parametrize("step", PREPARE)
def test_a_kill_during_prepare_is_undone_or_finished_at_the_next_start(machine: Machine, step: str, kind: str) -> None:
    other, claim = machine.offer(gpu_claim(1), CLAIMS[kind])
    before = prepared(machine.preparer().prepare([other])[other.uid])
    killed = in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).prepare([claim]))
    assert killed == -signal.SIGKILL
    machine.api_is_away = True
    machine.recover()
    finished = step == PREPARE[-1]
    assert machine.check() == {other.uid, *([claim.uid] if finished else [])}
    machine.mend()
    machine.api_is_away = False
    answers = machine.preparer().prepare([other, claim])
    assert prepared(answers[other.uid]) == before
    assert prepared(answers[claim.uid]) == prepared(answers[claim.uid])
    assert machine.check() == {other.uid, claim.uid}
    machine.check_gpus()
    assert machine.preparer().unprepare([other, claim]) == {other.uid: None, claim.uid: None}
    assert machine.check() == set()
    machine.check_gpus()
    assert list((machine.plugin_dir / "preparing").iterdir()) == []


@pytest.mark.parametrize("step", UNPREPARE)
@pytest.mark.parametrize("kind", ["mig", "mps"])
@pytest.mark.parametrize("again", ["unprepare", "prepare", "mend"])
def test_a_kill_during_unprepare_is_recovered_and_either_call_works_then(
    machine: Machine, step: str, again: str, kind: str
) -> None:
    other, claim = machine.offer(gpu_claim(1), CLAIMS[kind])
    before = machine.preparer().prepare([other, claim])
    killed = in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).unprepare([claim]))
    assert killed == -signal.SIGKILL
    machine.recover()
    finished = step in WITHOUT_ENTRY
    assert machine.check() == {other.uid, *([] if finished else [claim.uid])}
    if again == "prepare":
        assert machine.preparer().prepare([other, claim]) == before
        assert machine.check() == {other.uid, claim.uid}
        machine.check_gpus()
    elif again == "mend":
        machine.mend()
    assert machine.preparer().unprepare([claim]) == {claim.uid: None}
    assert machine.check() == {other.uid}
    machine.check_gpus()


@pytest.mark.parametrize("step", PREPARE)
def test_another_claim_on_the_same_gpu_right_after_a_kill_needs_no_recovery(machine: Machine, step: str) -> None:
    first, second = machine.offer(mig_claim(1, (1, 0), (1, 1)), share_claim(2, 1))
    machine.recover()
    in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).prepare([first]))
    preparer = machine.preparer()
    if step == PREPARE[-1]:
        assert preparer.unprepare([first]) == {first.uid: None}
    prepared(preparer.prepare([second])[second.uid])
    machine.recover()
    assert machine.check() == {second.uid}
    machine.check_gpus()


@pytest.mark.parametrize("step", PREPARE)
def test_an_unprepare_right_after_a_kill_needs_no_recovery(machine: Machine, step: str) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0), (1, 1)))
    surviving = machine.preparer()
    in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).prepare([claim]))
    assert surviving.unprepare([claim]) == {claim.uid: None}
    assert machine.check() == set()
    machine.check_gpus()


def die_and_recover(machine: Machine, kind: str, step: int) -> int:
    """Let an action die at a system call, recover, and check; the exit code of what died, or did not."""
    other, claim = machine.offer(gpu_claim(1), mig_claim(2, (2, 0), (3, 1)))
    preparer = machine.preparer()
    expected = preparer.prepare([other] if kind == "prepare" else [other, claim])
    act: Callable[[], object] = machine.recover
    if kind == "prepare":
        act = functools.partial(preparer.prepare, [claim])
    elif kind == "unprepare":
        act = functools.partial(preparer.unprepare, [claim])
    elif kind == "recover":
        (machine.cdi_dir / f"rootport.dev-claim_{uid(2)}.json").unlink()
        (machine.cdi_dir / f"rootport.dev-claim_{uid(3)}.json").touch()
        (machine.plugin_dir / "effects" / f"{uid(2)}.json").unlink()
    elif kind == "mend":
        machine.gpus.undo(machine.gpus.there()[0])
        effects = machine.entries()[claim.uid].effects
        machine.store().journal.write(gpu_claim(3).reference, [replace(effects[0], start=4)])
        act = machine.mend
    else:
        machine.checkpoint.write_text("spoilt")

    def dies() -> None:
        die_at(step)
        act()

    code = in_child(dies)
    machine.recover()
    left = machine.check()
    assert left in ({uid(1)}, {uid(1), uid(2)})
    assert kind in ("prepare", "unprepare") or len(left) == 2
    machine.mend()
    answers = machine.preparer().prepare([other, claim])
    assert all(prepared(answers[key]) == answer for key, answer in expected.items())
    assert machine.check() == {uid(1), uid(2)}
    machine.preparer().unprepare([claim])
    assert machine.check() == {uid(1)}
    machine.check_gpus()
    return code


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prepare", "unprepare", "recover", "rebuild", "mend"])
def test_a_death_between_any_two_system_calls_can_be_recovered_and_repeated(tmp_path: Path, kind: str) -> None:
    codes = [die_and_recover(Machine(tmp_path / "0"), kind, 0)]
    while codes[-1] == DIED and len(codes) < 400:
        codes.append(die_and_recover(Machine(tmp_path / str(len(codes))), kind, len(codes)))
    assert codes == [DIED] * (len(codes) - 1) + [0]
    assert len(codes) > 20
