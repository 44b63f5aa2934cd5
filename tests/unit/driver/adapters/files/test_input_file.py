"""Opening what the user names: regular files alone, and never a traceback or an endless wait."""

import os
from pathlib import Path

import pytest

from driver.adapters.files.input_file import open_input, path_name, read_input
from driver.errors import InputError

MIB = 1024**2


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_input(path, MIB, "a file of figures", too_large="cut it")
    return str(caught.value)


def test_a_file_as_large_as_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * MIB)
    assert read_input(path, MIB, "a file of figures") == b"x" * MIB


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * (MIB + 1))
    assert error_of(path) == f"{path}: larger than 1 MiB, the most that is read of a file of figures (cut it)"


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert error_of(tmp_path / "pipe") == f"{tmp_path}/pipe: not a regular file (name a file of figures)"


def test_a_pipe_that_took_a_files_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pipe = tmp_path / "f", tmp_path / "pipe"
    path.touch()
    os.mkfifo(pipe)
    ask = Path.stat

    def ask_and_lose(self: Path, **options: bool) -> os.stat_result:
        found = ask(self, **options)
        pipe.replace(path)
        return found

    monkeypatch.setattr(Path, "stat", ask_and_lose)
    with pytest.raises(InputError, match="not a regular file"):
        open_input(path, "a file of figures")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param(Path("/dev/zero"), "/dev/zero: not a regular file", id="device"),
        pytest.param(Path("/"), "/: not a regular file", id="folder"),
        pytest.param(Path("/no/such"), "/no/such: cannot be read: No such file or directory", id="missing"),
        pytest.param(Path("/dev/zero/x"), "/dev/zero/x: cannot be read: Not a directory", id="below a device"),
        pytest.param(Path("x" * 300), "cannot be read: File name too long", id="300 characters"),
        pytest.param(Path("a\0b"), r"'a\x00b': cannot be read", id="NUL"),
    ],
)
def test_what_cannot_be_read_is_named(path: Path, says: str) -> None:
    message = error_of(path)
    assert says in message
    assert message.endswith("(name a file of figures)")


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "loop: cannot be read: Too many levels" in error_of(tmp_path / "loop")


def test_a_name_reaches_the_terminal_escaped() -> None:
    assert path_name(Path("a b/é.yaml")) == "a b/é.yaml"
    assert path_name(Path("a\x1b[2J")) == r"'a\x1b[2J'"
    assert path_name(Path(os.fsdecode(b"\xff"))) == r"'\udcff'"
