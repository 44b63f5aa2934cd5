"""The journal of effects: what is written is read back; what is damaged is set aside and never stops anything."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.errors import InputError, NodeError
from driver.plan.effects import CreateMigDevice, Effect, RunMpsDaemon, SetTimeSlice
from kubeletplugin.effects import EffectJournal, JournalEntry, NewerJournalError
from tests.support.preparer.machine import gpu_claim, uid

CLAIM = gpu_claim(1).reference
MIG = CreateMigDevice(gpu="gpu-a", uuid="GPU-a", profile_id=19, profile="1g.10gb", start=3, size=1)
EFFECTS: tuple[Effect, ...] = (
    MIG,
    SetTimeSlice(gpu="gpu-b", uuid="GPU-b", interval="Long"),
    RunMpsDaemon(gpu="gpu-c", uuid="GPU-c", folder="/run/rootport/mps/gpu-c"),
)


def opened(folder: Path, boot_id: str = "boot-1") -> EffectJournal:
    return EffectJournal(folder, boot_id=boot_id)


def entry_of(effects: Sequence[Effect], boot_id: str | None = "boot-1") -> JournalEntry:
    return JournalEntry(claim=CLAIM, effects=tuple(effects), boot_id=boot_id)


@pytest.fixture
def journal(tmp_path: Path) -> EffectJournal:
    return opened(tmp_path / "effects")


def path(journal: EffectJournal, number: int = 1) -> Path:
    return journal.folder / f"{uid(number)}.json"


def test_what_is_written_is_read_back_by_another_process_in_its_order(journal: EffectJournal) -> None:
    journal.write(CLAIM, EFFECTS)
    other = opened(journal.folder)
    assert other.read(CLAIM.uid) == entry_of(EFFECTS)
    assert other.all() == {CLAIM.uid: entry_of(EFFECTS)}
    journal.write(CLAIM, EFFECTS[:1])
    assert other.read(CLAIM.uid) == entry_of(EFFECTS[:1])
    journal.remove(CLAIM.uid)
    assert other.read(CLAIM.uid) is None
    assert other.all() == {}


def test_a_journal_is_the_owners_and_leaves_no_temporary_file(journal: EffectJournal) -> None:
    journal.write(CLAIM, EFFECTS)
    assert [item.name for item in journal.folder.iterdir()] == [f"{uid(1)}.json"]
    assert stat.S_IMODE(path(journal).stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_is_an_empty_journal(journal: EffectJournal) -> None:
    assert (journal.all(), journal.read(CLAIM.uid), journal.own_partitions()) == ({}, None, frozenset())
    journal.remove(CLAIM.uid)
    assert not journal.folder.exists()


def test_own_partitions_are_those_of_all_claims(journal: EffectJournal) -> None:
    journal.write(CLAIM, EFFECTS)
    journal.write(gpu_claim(2).reference, [replace(MIG, start=5)])
    assert journal.own_partitions() == {("gpu-a", 19, 3), ("gpu-a", 19, 5)}


@pytest.mark.parametrize("bad", ["../evil", "", "a/b"])
def test_a_uid_that_is_none_never_becomes_a_path(journal: EffectJournal, bad: str) -> None:
    for call in (journal.read, journal.remove, lambda item: journal.write(replace(CLAIM, uid=item), [])):
        with pytest.raises(InputError):
            call(bad)


def _changed(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def spoil(file: Path) -> None:
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return spoil


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: os.truncate(file, 40),
    "empty": lambda file: file.write_text(""),
    "deep": lambda file: file.write_text("[" * 100_000),
    "not-text": lambda file: file.write_bytes(b"\xff\xfe"),
    "huge": lambda file: os.truncate(file, 2 << 20),
    "folder": _folder,
    "other-claim": _changed(lambda content: content.update(claim={"uid": uid(2), "namespace": "a", "name": "b"})),
    "version-0": _changed(lambda content: content.update(version=0)),
    "no-boot": _changed(lambda content: content.pop("boot_id")),
    "boot-in-version-2": _changed(lambda content: content.update(version=2)),
    "unknown-field": _changed(lambda content: content.update(more=1)),
    "unknown-effect": _changed(lambda content: content.update(effects=[{"kind": "FormatDisk"}])),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_journal_is_set_aside_with_a_warning_and_the_others_still_count(
    journal: EffectJournal, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal.write(CLAIM, EFFECTS)
    journal.write(gpu_claim(2).reference, EFFECTS[1:])
    DAMAGE[kind](path(journal))
    assert journal.own_partitions() == frozenset()
    assert path(journal).exists()  # read without the lock, it is left where it is
    assert list(journal.all()) == [uid(2)]
    (aside,) = journal.folder.glob("*.damaged-*")
    assert not path(journal).exists()
    (record,) = [item for item in caplog.records if item.levelno == logging.WARNING]
    assert str(path(journal)) in record.getMessage()
    assert str(aside) in record.getMessage()
    journal.write(CLAIM, EFFECTS)
    assert list(journal.all()) == [uid(1), uid(2)]


def test_only_the_last_few_damaged_journals_are_kept(journal: EffectJournal) -> None:
    for number in (4, 2, 5, 1, 3):
        journal.write(gpu_claim(number).reference, EFFECTS)
        path(journal, number).write_text("")
        assert journal.read(uid(number)) is None
    kept = {item.name.partition(".")[0] for item in journal.folder.iterdir()}
    assert kept == {uid(5), uid(1), uid(3)}


def test_a_journal_of_a_later_version_refuses_its_claim_and_is_never_written_over_or_removed(
    journal: EffectJournal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.write(CLAIM, EFFECTS)
    journal.write(gpu_claim(2).reference, EFFECTS[1:])
    newer = '{"version": 5, "anything": []}'
    path(journal).write_text(newer)
    for act in (
        lambda: journal.read(CLAIM.uid),
        lambda: journal.write(CLAIM, EFFECTS),
        lambda: journal.remove(CLAIM.uid),
    ):
        with pytest.raises(NewerJournalError, match="is of version 5, and this Rootport knows version 4") as caught:
            act()
        assert "install the Rootport that wrote it" in (caught.value.hint or "")
        assert not caught.value.retry_helps
    for _ in range(2):
        assert list(journal.all()) == [uid(2)]
        assert journal.own_partitions() == frozenset()
        assert journal.forget_earlier_boots(lambda _: None) == ()
    assert caplog.text.count("is of version 5") == 1
    assert path(journal).read_text() == newer


def test_a_mig_device_in_a_journal_of_a_later_version_is_still_rootports_own(journal: EffectJournal) -> None:
    """An older Rootport that comes back must not give it to others as part of an administrator's static layout."""
    journal.write(CLAIM, EFFECTS)
    journal.write(gpu_claim(2).reference, [replace(MIG, start=5)])

    def as_later_version(content: dict[str, Any]) -> None:
        content.update(version=5, unknown={"of": "version 5"})
        content["effects"][0]["unknown"] = 1
        content["effects"] += [{"kind": "Unknown"}, "unknown", None, {"gpu": "gpu-d", "profile_id": True, "start": [1]}]

    _changed(as_later_version)(path(journal))
    assert opened(journal.folder).own_partitions() == {("gpu-a", 19, 3), ("gpu-a", 19, 5)}
    assert opened(journal.folder, "boot-2").own_partitions() == frozenset(), "no MIG device outlives a reboot"


@pytest.mark.parametrize("effects", [None, {}, "x", 1, [[]]])
def test_a_journal_of_a_later_version_may_look_like_anything(journal: EffectJournal, effects: object) -> None:
    journal.write(CLAIM, EFFECTS)
    _changed(lambda content: content.update(version=5, effects=effects))(path(journal))
    assert journal.own_partitions() == frozenset()


def test_a_journal_of_an_earlier_boot_says_nothing_and_is_removed(journal: EffectJournal) -> None:
    journal.write(CLAIM, EFFECTS)
    later = opened(journal.folder, "boot-2")
    assert (later.read(CLAIM.uid), later.all(), later.own_partitions()) == (None, {}, frozenset())
    later.write(gpu_claim(2).reference, EFFECTS)
    assert later.forget_earlier_boots(lambda _: None) == (CLAIM,)
    assert [item.name for item in journal.folder.iterdir()] == [f"{uid(2)}.json"]
    assert opened(journal.folder, "boot-2").own_partitions() == {("gpu-a", 19, 3)}


@pytest.mark.parametrize(
    ("boot", "kept"), [("boot-2", True), (None, True), ("boot-1", False)], ids=["this", "not known", "earlier"]
)
def test_a_journal_that_does_not_say_its_boot_is_of_that_of_its_claim(
    journal: EffectJournal, boot: str | None, kept: bool
) -> None:
    journal.write(CLAIM, EFFECTS)

    def as_version_2(content: dict[str, object]) -> None:
        content.update(version=2)
        del content["boot_id"]

    _changed(as_version_2)(path(journal))
    later = opened(journal.folder, "boot-2")
    assert later.read(CLAIM.uid) == entry_of(EFFECTS, None)
    assert later.forget_earlier_boots(lambda _: boot) == (() if kept else (CLAIM,))
    assert later.read(CLAIM.uid) == (entry_of(EFFECTS, "boot-2") if kept else None)
    assert path(journal).exists() == kept


def test_temporary_files_are_removed_and_others_left_alone(journal: EffectJournal) -> None:
    journal.write(CLAIM, EFFECTS)
    stray, other = journal.folder / f".{uid(1)}.json.abc123.tmp", journal.folder / ".other.abc123.tmp"
    stray.touch()
    other.touch()
    assert journal.remove_leftovers() == (stray,)
    assert other.exists()
    assert list(journal.all()) == [uid(1)]


def test_a_folder_that_cannot_be_had_is_told_with_the_claim(tmp_path: Path) -> None:
    (tmp_path / "effects").touch()
    with pytest.raises(
        NodeError, match=f"claim ml/claim-1 .*{uid(1)}.*: the journal of its effects .* cannot be written"
    ):
        opened(tmp_path / "effects").write(CLAIM, EFFECTS)
