"""What claims do to GPUs: done after it is journalled, undone with the last claim that needs it, never in the way."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from driver.adapters.files.cdi_files import spec_path
from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError
from driver.model.devices import MigInstance
from driver.plan.effects import Effect, RunMpsDaemon
from kubeletplugin.claims.recovery import Reconciler, recover
from kubeletplugin.effects import HostEffects
from kubeletplugin.state.checkpoint import NewerCheckpointError
from tests.support.preparer.machine import Machine, device, failed, gpu_claim, prepared, uid
from tests.support.preparer.sharing import mig_claim, share_claim

LONG = {"strategy": "timeSlicing", "timeSlicing": {"interval": "Long"}}


def journalled(machine: Machine) -> dict[str, int]:
    """How many effects the journal has of each claim, of whatever boot."""
    files = (machine.plugin_dir / "effects").glob("*.json")
    return {path.stem: len(json.loads(path.read_text())["effects"]) for path in sorted(files)}


def watched(machine: Machine, act: Callable[[Effect], None]) -> None:
    """Have ``act`` called before each effect is done."""
    do = machine.gpus.do

    def first(effect: Effect) -> MigInstance | None:
        act(effect)
        return do(effect)

    machine.gpus.do = first  # type: ignore[method-assign]


# Prepare and unprepare


@pytest.mark.parametrize(
    "claim",
    [mig_claim(1, (1, 0), (2, 4)), share_claim(1, 1), share_claim(1, 1, 2, **LONG)],
    ids=["mig", "mps", "time-slices"],
)
def test_effects_are_journalled_before_they_are_done_and_forgotten_after_they_are_undone(
    machine: Machine, claim: object
) -> None:
    (reference,) = machine.offer(claim)
    seen: list[bool] = []
    watched(machine, lambda effect: seen.append(effect in machine.store().journal.all()[reference.uid].effects))
    preparer = machine.preparer()
    prepared(preparer.prepare([reference])[reference.uid])
    assert seen
    assert all(seen)
    assert machine.check() == {reference.uid}
    machine.check_gpus()
    machine.api_is_away = True
    done = [line.split(maxsplit=1)[1] for line in machine.gpus.log()]
    assert preparer.unprepare([reference]) == {reference.uid: None}
    assert machine.gpus.log() == [f"undo {line}" for line in reversed(done)]
    assert machine.gpus.there() == []
    assert journalled(machine) == {}


def test_a_mig_device_that_was_made_is_what_the_kubelet_and_the_container_are_told(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 3)))
    (item,) = prepared(machine.preparer().prepare([claim])[claim.uid]).devices
    assert item.mig_uuid == f"MIG-{device(1)}-3-1-1"
    assert item.isolation is not None
    assert item.isolation.enforced
    assert item.use is not None
    assert (item.use.gpu, item.use.mode, item.use.placement and item.use.placement.start) == (device(1), "mig", 3)
    assert item.use.gpu_memory_bytes == 80 << 30
    spec = spec_path(claim.uid, machine.cdi_dir).read_text()
    assert item.mig_uuid in spec
    assert "/dev/nvidia-caps/nvidia-cap4" in spec


def test_an_effect_that_claims_share_is_undone_with_the_last_of_them(machine: Machine) -> None:
    claims = machine.offer(share_claim(1, 1, core=30, memory=10), share_claim(2, 1, core=30, memory=10))
    preparer = machine.preparer()
    preparer.prepare(claims)
    assert journalled(machine) == {uid(1): 1, uid(2): 1}
    assert preparer.unprepare(claims[:1]) == {uid(1): None}
    machine.check_gpus()
    assert len(machine.gpus.there()) == 1
    assert preparer.unprepare(claims[1:]) == {uid(2): None}
    machine.check_gpus()
    assert machine.gpus.log() == [f"do RunMpsDaemon {device(1)}"] * 2 + [f"undo RunMpsDaemon {device(1)}"]


def test_an_effect_that_cannot_be_done_is_told_and_all_of_the_claim_is_undone(machine: Machine) -> None:
    other, claim = machine.offer(mig_claim(1, (1, 6)), mig_claim(2, (1, 0), (1, 1), (2, 0)))
    preparer = machine.preparer()
    preparer.prepare([other])
    machine.gpus.stick(device(2))
    error = failed(preparer.prepare([claim])[claim.uid])
    assert isinstance(error, NodeError)
    assert error.message.startswith(f"claim ml/claim-2 (uid {uid(2)}), device {device(2)}: ")
    assert error.hint == "reset it"
    assert machine.check() == {uid(1)}
    assert [effect.gpu for effect in machine.gpus.there()] == [device(1)]
    # Whether it was done in part is not known: it stays in the journal until the GPU says that it is not there.
    assert journalled(machine) == {uid(1): 1, uid(2): 1}
    machine.gpus.stick()
    machine.mend()
    assert journalled(machine) == {uid(1): 1}
    prepared(preparer.prepare([claim])[claim.uid])
    machine.check_gpus()


def test_a_missing_device_node_and_a_full_disk_undo_the_effects_too(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    machine.recover()
    cap = machine.root / "host" / "dev" / "nvidia-caps" / "nvidia-cap4"
    cap.unlink()
    assert (
        "the device node /dev/nvidia-caps/nvidia-cap4" in failed(machine.preparer().prepare([claim])[claim.uid]).message
    )
    assert (machine.gpus.there(), journalled(machine), machine.check()) == ([], {}, set())
    cap.touch()
    machine.cdi_dir.touch()  # a file in the folder's place
    assert "cannot be written" in failed(machine.preparer().prepare([claim])[claim.uid]).message
    assert (machine.gpus.there(), journalled(machine)) == ([], {})


def test_nothing_is_done_for_a_claim_that_is_refused(machine: Machine) -> None:
    first, second = machine.offer(share_claim(1, 1, core=30, memory=10), share_claim(2, 1, core=30, memory=10, **LONG))
    preparer = machine.preparer()
    prepared(preparer.prepare([first])[first.uid])
    machine.gpus.log()
    message = failed(preparer.prepare([second])[second.uid]).message
    assert message == (
        f"claim ml/claim-2 (uid {uid(2)}), request gpu0, device {device(1)}: GPU {device(1)} is in use by claim "
        f"ml/claim-1 (uid {uid(1)}): its share is kept apart by 'mps', and this one's would be by 'timeSlicing "
        "interval=Long'"
    )
    assert machine.gpus.log() == []
    assert journalled(machine) == {uid(1): 1}


def test_each_mode_of_a_gpu_keeps_the_others_off_until_it_is_free(machine: Machine) -> None:
    claims = machine.offer(
        gpu_claim(1, 1), share_claim(2, 1), share_claim(3, 1, memory=50, ratio=True), mig_claim(4, (1, 0))
    )
    preparer = machine.preparer()
    for holder in claims:
        prepared(preparer.prepare([holder])[holder.uid])
        for other in claims:
            if other != holder:
                error = failed(preparer.prepare([other])[other.uid])
                assert f"in use by claim {holder}" in error.message
        assert preparer.unprepare([holder]) == {holder.uid: None}
    assert machine.gpus.there() == []
    assert journalled(machine) == {}


# The kubelet asks again


def test_a_repeated_prepare_revives_an_mps_daemon_and_asks_for_nothing_else(machine: Machine) -> None:
    claims = machine.offer(share_claim(1, 1), mig_claim(2, (2, 0)), share_claim(3, 3, **LONG))
    preparer = machine.preparer()
    before = preparer.prepare(claims)
    machine.gpus.log()
    machine.gpus.undo(machine.entries()[uid(1)].effects[0])
    machine.gpus.log()
    machine.api_is_away = True
    assert preparer.prepare(claims) == before
    assert machine.gpus.log() == [f"do RunMpsDaemon {device(1)}"]
    machine.check_gpus()
    machine.gpus.stick(device(1), device(2), device(3))
    answers = preparer.prepare(claims)
    assert f"claim ml/claim-1 (uid {uid(1)}), device {device(1)}" in failed(answers[uid(1)]).message
    assert answers[uid(2)] == before[uid(2)]


def test_a_daemon_that_ended_is_started_once_for_all_its_claims_and_the_api_server_is_not_asked(
    machine: Machine,
) -> None:
    claims = machine.offer(share_claim(1, 1, core=30, memory=10), share_claim(2, 1, core=30, memory=10))
    preparer = machine.preparer()
    preparer.prepare(claims)
    (daemon,) = machine.gpus.there()
    assert isinstance(daemon, RunMpsDaemon)
    machine.gpus.undo(daemon)
    machine.gpus.log()
    machine.asked.clear()
    preparer.restart(daemon)
    assert machine.gpus.log() == [f"do RunMpsDaemon {device(1)}"]
    assert machine.asked == []
    machine.check_gpus()
    machine.gpus.stick(device(1))
    with pytest.raises(NodeError, match=rf"claim ml/claim-1 \(uid {uid(1)}\), device {device(1)}: "):
        preparer.restart(daemon)
    machine.gpus.stick()
    preparer.unprepare(claims)
    machine.gpus.log()
    preparer.restart(daemon)
    assert machine.gpus.log() == [], "no claim has it any more"


# Leftovers


def test_a_pod_can_end_although_its_effects_cannot_be_undone_and_a_later_try_undoes_them(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0), (2, 0)))
    preparer = machine.preparer()
    preparer.prepare([claim])
    machine.gpus.stick(device(1))
    assert preparer.unprepare([claim]) == {claim.uid: None}
    assert machine.check() == set()
    assert [effect.gpu for effect in machine.gpus.there()] == [device(1)]
    (record,) = [item for item in caplog.records if item.levelno == logging.WARNING]
    assert f"what claim ml/claim-1 (uid {uid(1)}) did to {device(1)} cannot be undone" in record.getMessage()
    report = recover(machine.store())
    assert report.left == [claim]
    assert f"left on the node's devices, to be undone: {claim}" in str(report)
    mended = machine.preparer().mend()
    assert mended.undone == ()
    assert len(mended.failed) == 1
    assert journalled(machine) == {uid(1): 1}
    machine.gpus.stick()
    assert machine.mend().undone == (claim,)
    assert (machine.gpus.there(), journalled(machine)) == ([], {})


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "share"])
def test_no_claim_is_prepared_on_a_gpu_on_which_another_left_something(machine: Machine, whole: bool) -> None:
    first = mig_claim(1, (1, 0))
    second = gpu_claim(2, 1) if whole else share_claim(2, 1)
    third = share_claim(3, 2)
    references = machine.offer(first, second, third)
    preparer = machine.preparer()
    preparer.prepare(references[:1])
    machine.gpus.stick(device(1))
    preparer.unprepare(references[:1])
    answers = preparer.prepare(references[1:])
    prepared(answers[uid(3)])
    error = failed(answers[uid(2)])
    assert error.message == (
        f"claim ml/claim-2 (uid {uid(2)}): GPU {device(1)} is not free: what claim ml/claim-1 (uid {uid(1)}) did to "
        f"{device(1)} cannot be undone: {device(1)} does not answer"
    )
    assert error.hint == "reset it; the kubelet retries"
    assert machine.check() == {uid(3)}
    machine.gpus.stick()
    prepared(preparer.prepare(references[1:2])[uid(2)])
    assert machine.check() == {uid(2), uid(3)}
    machine.check_gpus()


def test_a_leftover_that_the_next_claim_needs_too_is_left_as_it_is(machine: Machine) -> None:
    claims = machine.offer(share_claim(1, 1), share_claim(2, 1))
    preparer = machine.preparer()
    preparer.prepare(claims[:1])
    machine.gpus.stick(device(1))
    preparer.unprepare(claims[:1])
    machine.gpus.stick()
    machine.gpus.log()
    prepared(preparer.prepare(claims[1:])[uid(2)])
    machine.mend()
    assert not any(line.startswith("undo") for line in machine.gpus.log())
    assert journalled(machine) == {uid(2): 1}
    assert preparer.unprepare(claims[1:]) == {uid(2): None}
    assert machine.gpus.there() == []


def test_a_mig_device_that_another_claim_left_is_never_given_on(machine: Machine) -> None:
    claims = machine.offer(mig_claim(1, (1, 0)), mig_claim(2, (1, 0)))
    preparer = machine.preparer()
    preparer.prepare(claims[:1])
    machine.gpus.stick(device(1))
    preparer.unprepare(claims[:1])
    assert "is not free" in failed(preparer.prepare(claims[1:])[uid(2)]).message
    machine.gpus.stick()
    machine.gpus.log()
    prepared(preparer.prepare(claims[1:])[uid(2)])
    # The former claim's program might still compute in it; then NVML refuses to destroy it.
    assert machine.gpus.log() == [f"undo CreateMigDevice {device(1)}", f"do CreateMigDevice {device(1)}"]
    assert journalled(machine) == {uid(2): 1}
    machine.check_gpus()


def test_a_time_slice_that_cannot_be_set_back_keeps_only_other_time_slices_from_the_gpu(machine: Machine) -> None:
    short = {"strategy": "timeSlicing", "timeSlicing": {"interval": "Short"}}
    claims = machine.offer(share_claim(1, 1, **LONG), gpu_claim(2, 1), share_claim(3, 1, **short))
    preparer = machine.preparer()
    preparer.prepare(claims[:1])
    machine.gpus.stick(device(1))
    preparer.unprepare(claims[:1])
    prepared(preparer.prepare([claims[1]])[uid(2)])
    assert journalled(machine) == {uid(1): 1}
    assert preparer.unprepare([claims[1]]) == {uid(2): None}
    assert "is not free" in failed(preparer.prepare([claims[2]])[uid(3)]).message
    machine.gpus.stick()
    prepared(preparer.prepare([claims[2]])[uid(3)])
    machine.check_gpus()


def test_a_claim_that_is_allocated_anew_is_not_held_up_by_what_it_left_on_another_gpu(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    preparer = machine.preparer()
    preparer.prepare([claim])
    machine.gpus.stick(device(1))
    preparer.unprepare([claim])
    machine.offer(mig_claim(1, (2, 0)))
    prepared(preparer.prepare([claim])[claim.uid])
    assert journalled(machine) == {claim.uid: 2}
    machine.gpus.stick()
    machine.mend()
    assert journalled(machine) == {claim.uid: 1}
    assert machine.check() == {claim.uid}


def test_what_somebody_else_has_made_since_the_last_look_is_neither_given_nor_destroyed(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    preparer = machine.preparer()
    prepared(preparer.prepare([claim])[claim.uid])
    (effect,) = machine.gpus.there()
    assert preparer.unprepare([claim]) == {claim.uid: None}

    machine.gpus.do(effect)  # an administrator, by hand
    error = failed(preparer.prepare([claim])[claim.uid])

    assert "somebody else has made one there" in error.message
    assert str(claim) in error.message
    assert machine.gpus.there() == [effect]
    assert journalled(machine) == {}
    machine.gpus.undo(effect)
    prepared(preparer.prepare([claim])[claim.uid])


def test_an_unprepare_does_not_wait_for_more_than_one_effect_that_hangs(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (0, 0), (1, 0), (2, 0), (3, 0)))
    prepared(machine.preparer().prepare([claim])[claim.uid])
    gate, calls = threading.Event(), []

    class Hangs:
        def refuse_others(self, effect: Effect) -> None:
            raise AssertionError

        def do(self, effect: Effect) -> MigInstance | None:
            raise AssertionError

        def undo(self, effect: Effect) -> None:
            calls.append(effect.gpu)
            gate.wait(30)

    hangs = Hangs()
    preparer = machine.preparer(
        effects=HostEffects(mig=hangs, time_slices=hangs, mps=hangs, vfs=hangs, interfaces=hangs, deadline_s=0.05)
    )
    assert preparer.unprepare([claim]) == {claim.uid: None}
    assert calls == [device(3)]
    gate.set()
    assert journalled(machine) == {uid(1): 4}
    machine.mend()


def test_other_calls_get_their_turn_while_the_effects_of_many_claims_are_looked_after(machine: Machine) -> None:
    claims = machine.offer(*(share_claim(number, 1, core=5, memory=1) for number in range(1, 11)))
    store = machine.store()
    preparer = machine.preparer(store)
    preparer.prepare(claims)
    first = threading.Event()

    def slowly(_: Effect) -> None:
        first.set()
        time.sleep(0.1)

    watched(machine, slowly)
    mending = threading.Thread(target=preparer.mend)
    mending.start()
    assert first.wait(10)
    for _ in range(3):
        with store.opened():
            assert mending.is_alive(), "another call had to wait for all of it"
    mending.join()


def test_effects_of_a_claim_whose_journal_is_damaged_are_known_from_its_entry(machine: Machine) -> None:
    claims = machine.offer(mig_claim(1, (1, 0)), mig_claim(2, (2, 0)))
    preparer = machine.preparer()
    preparer.prepare(claims)
    for number in (1, 2):
        (machine.plugin_dir / "effects" / f"{uid(number)}.json").write_text("{")
    assert preparer.unprepare(claims[:1]) == {uid(1): None}
    machine.recover()
    assert journalled(machine) == {uid(2): 1}
    machine.check_gpus()


# Later, and after a reboot


def reconciler(machine: Machine, boot_id: str = "boot-1") -> Reconciler:
    store = machine.store(boot_id=boot_id)
    return Reconciler(store=store, preparer=machine.preparer(store), get_claim=machine.get_claim)


def test_the_start_needs_no_gpu_and_the_reconciler_does_again_what_is_gone(machine: Machine) -> None:
    claims = machine.offer(share_claim(1, 1), mig_claim(2, (2, 0)))
    machine.preparer().prepare(claims)
    for effect in machine.gpus.there():
        machine.gpus.undo(effect)
    machine.gpus.log()
    assert machine.recover().problems == []
    assert machine.gpus.log() == []
    machine.gpus.stick(device(1))
    report = reconciler(machine).run_once()
    assert [f"device {device(1)}" in str(error) for error in report.mended.failed] == [True]
    assert [effect.gpu for effect in machine.gpus.there()] == [device(2)]
    machine.gpus.stick()
    assert reconciler(machine).run_once().mended.failed == ()
    machine.check_gpus()


def test_a_mig_device_that_comes_back_as_another_one_has_its_claim_planned_anew(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    before = prepared(machine.preparer().prepare([claim])[claim.uid])
    machine.gpus.undo(machine.gpus.there()[0])
    machine.gpus.renumber()
    machine.api_is_away = True
    report = reconciler(machine).run_once()
    assert report.mended.outdated == (claim,)
    assert machine.entries()[claim.uid].state == "outdated"
    assert "API server is away" in failed(machine.preparer().prepare([claim])[claim.uid]).message
    assert machine.check() == {claim.uid}
    machine.api_is_away = False
    assert reconciler(machine).run_once().planned == (claim,)
    after = prepared(machine.preparer().prepare([claim])[claim.uid])
    assert (before.devices[0].mig_uuid, after.devices[0].mig_uuid) == (
        f"MIG-{device(1)}-0-1-1",
        f"MIG-{device(1)}-0-1-2",
    )
    assert f"MIG-{device(1)}-0-1-2" in spec_path(claim.uid, machine.cdi_dir).read_text()
    machine.check_gpus()


def reboot(machine: Machine) -> None:
    for path in machine.gpus.folder.iterdir():
        path.unlink()
    machine.gpus.renumber()
    recover(machine.store(boot_id="boot-2"))


def test_after_a_reboot_effects_are_done_when_the_kubelet_asks_and_the_spec_names_the_new_device(
    machine: Machine,
) -> None:
    claims = machine.offer(mig_claim(1, (1, 0)), share_claim(2, 2))
    machine.preparer().prepare(claims)
    reboot(machine)
    machine.gpus.log()
    reconciler(machine, "boot-2").run_once()
    assert machine.gpus.log() == []
    preparer = machine.preparer(machine.store(boot_id="boot-2"))
    answer = prepared(preparer.prepare(claims[:1])[uid(1)])
    assert answer.devices[0].mig_uuid == f"MIG-{device(1)}-0-1-2"
    spec = json.loads(spec_path(uid(1), machine.cdi_dir).read_bytes())
    assert f"MIG-{device(1)}-0-1-2" in json.dumps(spec)
    assert preparer.unprepare(claims) == {uid(1): None, uid(2): None}
    assert (machine.gpus.there(), journalled(machine)) == ([], {})


def test_after_a_reboot_a_gpu_goes_to_another_claim_and_the_former_one_takes_nothing_from_it(machine: Machine) -> None:
    first, second = machine.offer(
        share_claim(1, 1, **LONG), share_claim(2, 1, timeSlicing={"interval": "Short"}, strategy="timeSlicing")
    )
    machine.preparer().prepare([first])
    reboot(machine)
    preparer = machine.preparer(machine.store(boot_id="boot-2"))
    prepared(preparer.prepare([second])[second.uid])
    assert journalled(machine) == {second.uid: 1}
    machine.gpus.log()
    assert preparer.unprepare([first]) == {first.uid: None}
    assert machine.gpus.log() == []
    machine.check_gpus("boot-2")


def remade_by_an_administrator(machine: Machine) -> Effect:
    """A node after a power cut, on which the administrator's tool makes a MIG device where a claim had one."""
    (effect,) = machine.gpus.there()
    for path in machine.gpus.folder.iterdir():
        path.unlink()
    machine.gpus.do(effect)
    recover(machine.store(boot_id="boot-2"))
    machine.gpus.log()
    return effect


def unprepared(machine: Machine, claim: ClaimReference) -> None:
    preparer = machine.preparer(machine.store(boot_id="boot-2"))
    assert preparer.unprepare([claim]) == {claim.uid: None}


def reconciled_after_its_end(machine: Machine, claim: ClaimReference) -> None:
    machine.claims.clear()
    store = machine.store(boot_id="boot-2")
    loop = Reconciler(store=store, preparer=machine.preparer(store), get_claim=machine.get_claim, gone_after_s=0)
    assert loop.run_once().removed == (claim,)


def prepared_again(machine: Machine, claim: ClaimReference) -> None:
    answer = machine.preparer(machine.store(boot_id="boot-2")).prepare([claim])[claim.uid]
    assert "somebody else" in failed(answer).message


def replaced_by_another(machine: Machine, claim: ClaimReference) -> None:
    (other,) = machine.offer(mig_claim(2, (1, 1)))
    prepared(machine.preparer(machine.store(boot_id="boot-2")).prepare([other])[other.uid])
    assert claim.uid in machine.entries()


@pytest.mark.parametrize("act", [unprepared, reconciled_after_its_end, prepared_again, replaced_by_another])
def test_a_mig_device_of_an_administrator_where_a_claim_had_one_before_a_reboot_is_not_taken_for_the_claims(
    machine: Machine, act: Callable[[Machine, ClaimReference], None]
) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    prepared(machine.preparer().prepare([claim])[claim.uid])
    theirs = remade_by_an_administrator(machine)
    assert machine.store(boot_id="boot-2").journal.own_partitions() == frozenset(), "it is in the inventory"
    act(machine, claim)
    assert theirs in machine.gpus.there()
    assert f"undo {theirs.kind}" not in " ".join(machine.gpus.log())


def test_a_leftover_of_an_earlier_boot_keeps_nobody_from_the_gpu(machine: Machine) -> None:
    claim, other = machine.offer(mig_claim(1, (1, 0)), gpu_claim(2, 1))
    machine.preparer().prepare([claim])
    machine.gpus.stick(device(1))
    machine.preparer().unprepare([claim])
    assert journalled(machine) == {claim.uid: 1}
    machine.gpus.stick()
    reboot(machine)
    assert journalled(machine) == {}
    prepared(machine.preparer(machine.store(boot_id="boot-2")).prepare([other])[other.uid])


def test_a_claim_whose_journal_a_later_version_wrote_is_refused_and_its_pod_can_end(machine: Machine) -> None:
    claim, other = machine.offer(share_claim(1, 1), mig_claim(2, (2, 0)))
    prepared(machine.preparer().prepare([claim])[claim.uid])
    path = machine.plugin_dir / "effects" / f"{claim.uid}.json"
    newer = json.dumps(json.loads(path.read_text()) | {"version": 99, "more": [[]]})
    path.write_text(newer)
    assert machine.preparer().unprepare([claim]) == {claim.uid: None}
    assert machine.gpus.there() == [], "what its entry told is undone"
    error = failed(machine.preparer().prepare([claim])[claim.uid])
    assert "is of version 99" in error.message
    assert "install the Rootport that wrote it" in (error.hint or "")
    assert not error.retry_helps
    assert machine.gpus.there() == []
    prepared(machine.preparer().prepare([other])[other.uid])
    machine.recover()
    reconciler(machine).run_once()
    assert path.read_text() == newer


def test_cdi_specs_of_a_later_version_are_not_removed_where_the_checkpoint_is_lost(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1, 1))
    prepared(machine.preparer().prepare([claim])[claim.uid])
    spec = spec_path(claim.uid, machine.cdi_dir)
    newer = spec.read_text().replace('\\"version\\":4', '\\"version\\":5')
    assert newer != spec.read_text()
    spec.write_text(newer)
    machine.checkpoint.unlink()
    for _ in range(2):
        with pytest.raises(NewerCheckpointError, match="version 5"):
            machine.recover()
        assert "version 5" in failed(machine.preparer().prepare([claim])[claim.uid]).message
    assert spec.read_text() == newer


def test_a_rebuilt_claim_keeps_its_effects_when_it_cannot_be_planned_anew(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    machine.preparer().prepare([claim])
    machine.checkpoint.write_text("spoilt")
    machine.recover()
    inventory = machine.inventory
    machine.inventory = replace(inventory, gpus=())
    failed(machine.preparer().prepare([claim])[claim.uid])
    machine.inventory = inventory
    (machine.root / "host" / "dev" / "nvidia-caps" / "nvidia-cap4").unlink()
    failed(machine.preparer().prepare([claim])[claim.uid])
    assert machine.check() == {claim.uid}
    machine.check_gpus()


def test_a_claim_gone_from_the_api_since_an_earlier_boot_takes_its_journal_along(machine: Machine) -> None:
    (claim,) = machine.offer(mig_claim(1, (1, 0)))
    machine.preparer().prepare([claim])
    reboot(machine)
    machine.claims.clear()
    store = machine.store(boot_id="boot-2")
    loop = Reconciler(store=store, preparer=machine.preparer(store), get_claim=machine.get_claim, gone_after_s=0)
    assert loop.run_once().removed == (ClaimReference(namespace="ml", name="claim-1", uid=uid(1)),)
    assert (machine.check(), journalled(machine)) == (set(), {})
