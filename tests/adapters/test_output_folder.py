"""A result folder is replaced whole or not at all, and never one that is somebody else's."""

from pathlib import Path

import pytest

from driver.adapters.output_folder import MARKER, check_replaceable, replace_folder
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


def test_a_parent_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NodeError, match="cannot be made"):
        replace_folder(tmp_path / "file" / "out", {})
