"""The executor: whole files or none, whatever fails or dies on the way."""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.files.cdi_files import claim_uids, remove_leftovers, remove_spec, write_spec
from driver.errors import InputError, NodeError
from driver.plan import CdiSpec, prepare_plan
from tests.support.paths import REPO
from tests.support.plan.builders import claim, given, gpu, node


def spec(uid: str = "c1", minor: int = 0) -> CdiSpec:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0"), uid=uid), node(gpu(0, minor=minor)))
    assert plan.spec is not None
    return plan.spec


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_spec_is_written_where_the_runtime_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "cdi"
    path = write_spec(spec().claim, spec().to_json(), folder)
    assert path == folder / "rootport.dev-claim_c1.json"
    assert path.read_bytes() == spec().to_json()
    assert names(folder) == [path.name]


def test_a_file_can_be_read_by_a_runtime_of_another_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = write_spec(spec().claim, spec().to_json(), tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_same_spec_is_not_written_again(tmp_path: Path) -> None:
    path = write_spec(spec().claim, spec().to_json(), tmp_path)
    before = path.stat()
    assert write_spec(spec().claim, spec().to_json(), tmp_path) == path
    after = path.stat()  # to read it may change the time of access
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


@pytest.mark.parametrize("existing", [b"", b"{", None], ids=["empty", "half", "longer"])
def test_a_file_that_says_something_else_is_replaced(tmp_path: Path, existing: bytes | None) -> None:
    path = tmp_path / spec().file_name
    path.write_bytes(spec().to_json() + b" " if existing is None else existing)
    write_spec(spec().claim, spec().to_json(), tmp_path)
    assert path.read_bytes() == spec().to_json()
    assert names(tmp_path) == [path.name]


def test_a_link_in_the_files_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(spec().to_json())
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / spec().file_name).symlink_to(outside)
    for minor in (0, 1):
        path = write_spec(spec(minor=minor).claim, spec(minor=minor).to_json(), folder)
        assert not path.is_symlink()
        assert path.read_bytes() == spec(minor=minor).to_json()
        assert outside.read_bytes() == spec().to_json()
        path.unlink()
        path.symlink_to(outside)


def test_a_fifo_in_the_files_place_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / spec().file_name)
    assert write_spec(spec().claim, spec().to_json(), tmp_path).read_bytes() == spec().to_json()


def test_a_linked_folder_is_the_admins_choice(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var-run").symlink_to("run")
    write_spec(spec().claim, spec().to_json(), tmp_path / "var-run")
    assert names(tmp_path / "run") == [spec().file_name]


def test_only_the_named_claims_file_is_removed_and_again_is_fine(tmp_path: Path) -> None:
    for uid in ("c1", "c2"):
        write_spec(spec(uid).claim, spec(uid).to_json(), tmp_path)
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu")
    for _ in range(2):
        remove_spec("c1", tmp_path)
        assert names(tmp_path) == ["nvidia.yaml", "rootport.dev-claim_c2.json"]
    remove_spec("c1", tmp_path / "not-there")


def test_the_claims_of_a_folder_are_listed_and_other_files_left_out(tmp_path: Path) -> None:
    for uid in ("c2", "c1"):
        write_spec(spec(uid).claim, spec(uid).to_json(), tmp_path)
    for other in (
        "nvidia.yaml",
        "rootport.dev-claim_C1.json",
        "rootport.dev-gpu_c3.json",
        "rootport.dev-claim_c4.yaml",
    ):
        (tmp_path / other).write_text("")
    assert claim_uids(tmp_path) == ("c1", "c2")
    assert claim_uids(tmp_path / "not-there") == ()


@pytest.mark.parametrize("uid", ["../evil", "", "a/b", "a\n"])
def test_a_uid_that_is_none_is_refused_before_the_folder_is_touched(tmp_path: Path, uid: str) -> None:
    (tmp_path / "evil").write_text("")
    with pytest.raises(InputError):
        remove_spec(uid, tmp_path / "cdi")
    assert names(tmp_path) == ["evil"]


def test_leftovers_are_our_temporary_files_and_nothing_else(tmp_path: Path) -> None:
    keep = ["nvidia.yaml", ".hidden.tmp", ".rootport.dev-claim_C1.json.abc.tmp", "rootport.dev-claim_c1.json", "x.tmp"]
    leftover = ".rootport.dev-claim_c1.json.a1b2_c3d.tmp"
    for name in (*keep, leftover):
        (tmp_path / name).write_text("")
    assert remove_leftovers(tmp_path) == (tmp_path / leftover,)
    assert names(tmp_path) == sorted(keep)
    assert remove_leftovers(tmp_path) == ()
    assert remove_leftovers(tmp_path / "not-there") == ()


# What fails


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(NodeError) as caught:
        act()
    assert caught.value.hint
    assert isinstance(caught.value.__cause__, OSError)
    return caught.value.message


def test_a_folder_that_is_a_file_is_told_with_claim_and_file(tmp_path: Path) -> None:
    (tmp_path / "cdi").write_text("")
    path = tmp_path / "cdi" / "rootport.dev-claim_c1.json"
    message = failure(lambda: write_spec(spec().claim, spec().to_json(), tmp_path / "cdi"))
    assert message.startswith(f"claim ml/train (uid c1): the CDI spec {path} cannot be written: ")
    for act in (lambda: claim_uids(tmp_path / "cdi"), lambda: remove_leftovers(tmp_path / "cdi")):
        assert "Not a directory" in failure(act)


def test_a_folder_in_the_files_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / spec().file_name).mkdir()
    assert "Is a directory" in failure(lambda: write_spec(spec().claim, spec().to_json(), tmp_path))
    failure(lambda: remove_spec("c1", tmp_path))
    assert names(tmp_path) == [spec().file_name]


CALLS = ("mkdir", "open", "fstat", "fchmod", "write", "fsync", "replace", "close")


class FaultyOs:
    """Lets one system call of the ``os`` module fail: the one with this index, counted from 0."""

    def __init__(self, patch: pytest.MonkeyPatch, index: int, number: int) -> None:
        self.left = index
        self.number = number
        for name in CALLS:
            patch.setattr(os, name, functools.partial(self.call, name, getattr(os, name)))

    def call(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left != -1:
            return real(*args, **kwargs)
        if name == "close":
            real(*args)  # Linux frees the descriptor even where close reports an error
        raise OSError(self.number, os.strerror(self.number))

    @property
    def failed(self) -> bool:
        return self.left < 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("existing", [True, False], ids=["over-an-old-one", "first"])
def test_an_error_of_any_system_call_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, existing: bool
) -> None:
    old, new = spec(minor=0), spec(minor=1)
    told: list[str] = []
    for index in range(30):
        folder = tmp_path / str(index)
        if existing:
            write_spec(old.claim, old.to_json(), folder)
        with monkeypatch.context() as patch:
            faulty = FaultyOs(patch, index, number)
            try:
                write_spec(new.claim, new.to_json(), folder)
            except NodeError as error:
                told.append(error.message)
        held = [path.read_bytes() for path in folder.iterdir()] if folder.exists() else []
        assert held in ([old.to_json()] if existing else [], [new.to_json()])
        assert write_spec(new.claim, new.to_json(), folder).read_bytes() == new.to_json()
        if not faulty.failed:
            break
    assert not faulty.failed
    assert len(told) >= 7
    end = f"/{new.file_name} cannot be written: {os.strerror(number)}"
    assert all(line.startswith(f"claim ml/train (uid c1): the CDI spec {tmp_path}") for line in told)
    assert all(line.endswith(end) for line in told)


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that may spoil its process, in ``folder``, with the imports that it needs already done."""
    prologue = """
import os, resource, signal
from pathlib import Path
from tests.support.plan.builders import claim, given, gpu, node
from driver.adapters.files.cdi_files import write_spec
from driver.errors import NodeError
from driver.plan import prepare_plan
spec = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0"), uid="c1"), node(gpu(0))).spec
"""
    return subprocess.run(
        [sys.executable, "-c", prologue + code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


TRY = """
try:
    write_spec(spec.claim, spec.to_json(), Path())
except NodeError as error:
    print(error)
"""


def test_a_full_file_system_leaves_nothing_behind(tmp_path: Path) -> None:
    # The kernel's limit on a file's size stops the write half way, as a full disk does.
    run = run_python("resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))" + TRY, tmp_path)
    assert run.stderr == ""
    assert run.stdout == (
        "claim ml/train (uid c1): the CDI spec rootport.dev-claim_c1.json cannot be written: File too large "
        "(raise the process's limit on file sizes (RLIMIT_FSIZE), then retry)\n"
    )
    assert names(tmp_path) == []


def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir(mode=0o555)
    # As root nothing is forbidden, so root becomes nobody first.
    run = run_python("os.getuid() or os.setuid(65534)" + TRY, folder)
    assert run.stderr == ""
    assert "Permission denied (let Rootport write to that folder, then retry)" in run.stdout
    assert names(folder) == []


def test_a_kill_in_the_middle_of_the_write_leaves_a_leftover_that_is_cleaned_up(tmp_path: Path) -> None:
    run = run_python(
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))" + TRY,
        tmp_path,
    )
    assert run.returncode == -signal.SIGXFSZ
    (leftover,) = tmp_path.iterdir()
    assert leftover.read_bytes() == spec().to_json()[:10]
    assert remove_leftovers(tmp_path) == (leftover,)


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("first", "none", "new"), ("replace", "old", "new"), ("remove", "old", "none")]
)
def test_a_death_between_any_two_system_calls_leaves_old_or_new_and_can_be_repeated(
    tmp_path: Path, kind: str, before: str, after: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.plan.crashes", kind, str(tmp_path / "cdi")],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    attempts = [json.loads(line) for line in run.stdout.splitlines()]
    assert [attempt["code"] for attempt in attempts] == [70] * (len(attempts) - 1) + [0]
    seen = [attempt["seen"] for attempt in attempts]
    assert seen == [before] * seen.count(before) + [after] * seen.count(after)
    assert seen.count(before) >= 1
    assert seen.count(after) >= 2
    assert all(attempt["after"] == after for attempt in attempts)
    assert all(len(attempt["files"]) == (after == "new") for attempt in attempts)
    assert any(attempt["leftovers"] for attempt in attempts) == (kind != "remove")
