"""A result folder is replaced whole or not at all, and never one that is somebody else's."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.adapters.files.output_folder import MARKER, check_replaceable, replace_folder
from driver.errors import InputError, NodeError


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def test_a_second_result_replaces_the_first_whole(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    replace_folder(out, {"n1/x": b"1", "n2/y": b"2"})
    replace_folder(out, {"n1/x": b"3"})
    assert content(out) == {"n1/x": b"3"}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    replace_folder(tmp_path, {"x": b""})
    assert content(tmp_path) == {"x": b""}


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="did not write"):
        replace_folder(tmp_path, {"x": b""})
    assert content(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_file_or_a_link_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(InputError, match="not a folder"):
            check_replaceable(tmp_path / name)


@pytest.mark.parametrize("second", ["x/below-a-file", "y" * 300], ids=["a file in the way", "name too long"])
def test_a_failed_write_leaves_the_former_result(tmp_path: Path, second: str) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"x": b"old"})
    with pytest.raises(NodeError, match="as it was before"):
        replace_folder(out, {"x": b"new", second: b""})
    assert content(out) == {"x": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["file/out", "n" * 300, "new/" + "n" * 300, "n" * 250, "loop/out"])
def test_a_name_that_no_folder_can_have_is_the_users_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=r"--out .*: cannot be"):
        replace_folder(tmp_path / name, {})


@pytest.mark.parametrize("denied", ["out", f"out/{MARKER}"], ids=["the folder", "its marker"])
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    replace_folder(tmp_path / "out", {"x": b""})
    real = os.stat

    def deny(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == tmp_path / denied:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", deny)
        with pytest.raises(InputError, match=r"--out .*/out: cannot be read: Permission denied"):
            check_replaceable(tmp_path / "out")


FailRename = Callable[..., None]


@pytest.fixture
def fail_rename(monkeypatch: pytest.MonkeyPatch) -> FailRename:
    """Makes the kernel's n-th rename (from 1) fail with the error given for n."""

    def install(errors: dict[int, BaseException]) -> None:
        real = os.rename
        count = 0

        def rename(source: Path, target: Path) -> None:
            nonlocal count
            count += 1
            if count in errors:
                raise errors[count]
            real(source, target)

        monkeypatch.setattr(os, "rename", rename)

    return install


BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("error", "seen"),
    [pytest.param(BROKEN, NodeError, id="error"), pytest.param(KeyboardInterrupt(), KeyboardInterrupt, id="ctrl-c")],
)
def test_a_failed_swap_puts_the_former_result_back(
    tmp_path: Path, fail_rename: FailRename, error: BaseException, seen: type[BaseException]
) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"x": b"old"})
    fail_rename({2: error})
    with pytest.raises(seen):
        replace_folder(out, {"x": b"new"})
    assert content(out) == {"x": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [BROKEN, KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_a_result_that_cannot_be_put_back_is_kept_and_named(
    tmp_path: Path, fail_rename: FailRename, error: BaseException
) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"x": b"old"})
    fail_rename({2: error, 3: BROKEN})
    with pytest.raises(NodeError) as told:
        replace_folder(out, {"x": b"new"})
    [kept] = tmp_path.iterdir()
    assert content(kept / "out") == {"x": b"old"}
    assert str(kept / "out") in str(told.value)
    assert "as it was" not in str(told.value)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV], ids=errno.errorcode.get)
def test_a_mount_point_is_told_and_nothing_is_left_beside_it(
    tmp_path: Path, fail_rename: FailRename, code: int
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    fail_rename({1: OSError(code, os.strerror(code))})
    with pytest.raises(NodeError, match=r"--out .*: is a mount point.*name a folder below it"):
        replace_folder(out, {"x": b""})
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_the_marker_lists_the_files(tmp_path: Path) -> None:
    replace_folder(tmp_path / "out", {"n2/y": b"", "n1/x": b""})
    assert (tmp_path / "out" / MARKER).read_text() == "n1/x\nn2/y\n"


@pytest.mark.parametrize(
    ("added", "named"),
    [("notes.txt", "notes.txt"), ("n1/notes.txt", "n1/notes.txt"), ("mine/a/b", "mine")],
    ids=["beside", "among", "in an own folder"],
)
def test_a_file_put_into_a_result_is_never_deleted(tmp_path: Path, added: str, named: str) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"n1/x": b"old"})
    (out / added).parent.mkdir(parents=True, exist_ok=True)
    (out / added).write_text("mine")
    with pytest.raises(InputError, match=f"holds {named}, which rootport did not write"):
        replace_folder(out, {"n1/x": b"new"})
    assert content(out) == {"n1/x": b"old", added: b"mine"}


def test_a_link_put_into_a_result_is_foreign(tmp_path: Path) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"n1/x": b""})
    (out / "n2").symlink_to(tmp_path)
    with pytest.raises(InputError, match="holds n2,"):
        check_replaceable(out)


def test_a_listed_file_may_be_missing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    replace_folder(out, {"n1/x": b"", "n2/y": b""})
    (out / "n1/x").unlink()
    replace_folder(out, {"z": b""})
    assert content(out) == {"z": b""}


def test_an_empty_marker_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    check_replaceable(tmp_path)
    (tmp_path / "x").touch()
    with pytest.raises(InputError, match="holds x,"):
        check_replaceable(tmp_path)


def test_a_marker_that_is_no_file_is_foreign(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MARKER)
    with pytest.raises(InputError, match=f"holds {MARKER},"):
        check_replaceable(tmp_path)


@pytest.mark.parametrize("name", [".", "..", "../..", "../../a/b", "/"])
def test_the_current_folder_and_those_above_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    with pytest.raises(InputError, match=r"is \(or holds\) the current folder \(name a folder below it\)"):
        check_replaceable(Path(name))


def test_a_path_with_dots_is_the_folder_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "out" / "below").mkdir(parents=True)
    with pytest.raises(InputError, match="holds below,"):
        check_replaceable(tmp_path / "out" / "below" / "..")
    with pytest.raises(InputError, match="holds below,"):
        check_replaceable(tmp_path / "missing" / ".." / "out")


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InputError, match="current folder cannot be found"):
        check_replaceable(Path("out"))
