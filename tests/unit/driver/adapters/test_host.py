"""HostRoot: everything in the folder can be read, nothing outside it, and nothing that hangs is touched."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.errors import InputError, NodeError

SECRET = "the secret outside the root"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    (root / "sys" / "devices" / "card").mkdir(parents=True)
    (root / "sys" / "devices" / "card" / "vendor").write_text("0x10de\n")
    (root / "sys" / "class").mkdir()
    return root


def test_reads_a_file_without_white_space_around_it(root: Path) -> None:
    assert HostRoot(root).read("sys/devices/card/vendor") == "0x10de"


def test_follows_a_relative_link_as_sysfs_makes_them(root: Path) -> None:
    (root / "sys/class/card0").symlink_to("../devices/card")
    host = HostRoot(root)
    assert host.resolve("sys/class/card0") == "sys/devices/card"
    assert host.read("sys/class/card0/vendor") == "0x10de"
    assert host.names("sys/class/card0") == ("vendor",)


def test_an_absolute_link_is_absolute_within_the_root(root: Path) -> None:
    (root / "sys/class/card0").symlink_to("/sys/devices/card")
    assert HostRoot(root).read("sys/class/card0/vendor") == "0x10de"


def test_a_link_to_the_root_itself_leads_to_it(root: Path) -> None:
    (root / "sys/class/top").symlink_to("/")
    assert HostRoot(root).names("sys/class/top") == ("sys",)


def test_follows_links_that_stand_in_the_middle_of_a_path(root: Path) -> None:
    (root / "s").symlink_to("sys/class")
    (root / "sys/class/up").symlink_to("..")
    assert HostRoot(root).read("s/up/devices/./card/../card/vendor") == "0x10de"


@pytest.mark.parametrize(
    "target",
    [
        "../../../outside/secret",
        "../../../../../../../../../../outside/secret",
        "/../outside/secret",
        "../../../outside/../outside/secret",
        "../class/../../../outside/secret",
    ],
)
def test_a_link_out_of_the_root_leads_nowhere(root: Path, target: str) -> None:
    (root / "sys/class/leak").symlink_to(target)
    host = HostRoot(root)
    assert host.resolve("sys/class/leak") is None
    assert host.read("sys/class/leak") is None


def test_an_absolute_link_to_a_file_outside_is_looked_up_inside(root: Path, tmp_path: Path) -> None:
    (root / "sys/class/leak").symlink_to(tmp_path / "outside" / "secret")
    assert HostRoot(root).read("sys/class/leak") is None


def test_a_folder_link_out_of_the_root_opens_no_way_out(root: Path) -> None:
    (root / "sys/class/out").symlink_to("../../..")
    host = HostRoot(root)
    assert host.names("sys/class/out") == ()
    assert host.read("sys/class/out/outside/secret") is None


@pytest.mark.parametrize("path", ["../outside/secret", "sys/../../outside/secret", "/../outside/secret"])
def test_a_path_out_of_the_root_leads_nowhere(root: Path, path: str) -> None:
    assert HostRoot(root).read(path) is None


def test_a_circle_of_links_leads_nowhere(root: Path) -> None:
    (root / "sys/class/a").symlink_to("b")
    (root / "sys/class/b").symlink_to("a")
    (root / "sys/class/self").symlink_to("self/self")
    host = HostRoot(root)
    assert host.read("sys/class/a/vendor") is None
    assert host.resolve("sys/class/self") is None


@pytest.mark.parametrize(("links", "found"), [(40, True), (41, False)], ids=["as Linux allows", "one more"])
def test_a_chain_of_links_has_the_length_that_linux_allows(root: Path, links: int, found: bool) -> None:
    for number in range(1, links):
        (root / f"sys/class/link{number}").symlink_to(f"link{number + 1}")
    (root / f"sys/class/link{links}").symlink_to("../devices/card/vendor")
    assert (HostRoot(root).read("sys/class/link1") is not None) is found


def test_links_that_double_at_each_step_end_soon(root: Path) -> None:
    (root / "sys/class/l0").symlink_to("../class")
    for number in range(1, 60):
        (root / f"sys/class/l{number}").symlink_to(f"l{number - 1}/l{number - 1}")
    assert HostRoot(root).resolve("sys/class/l59") is None


@pytest.mark.parametrize("path", ["nothing", "sys/nothing/here", "sys/devices/card/vendor/below", "sys/dangling"])
def test_what_is_not_there_is_absent(root: Path, path: str) -> None:
    (root / "sys/dangling").symlink_to("gone")
    host = HostRoot(root)
    assert (host.read(path), host.resolve(path), host.names(path), host.is_folder(path)) == (None, None, (), False)


def test_what_counts_is_where_a_path_leads_not_how_long_it_is(root: Path) -> None:
    assert HostRoot(root).read("/".join(["sys/.."] * 10_000) + "/sys/devices/card/vendor") == "0x10de"


@pytest.mark.parametrize("path", ["a" * 300, "a/" * 5000], ids=["a name", "a path"])
def test_what_is_longer_than_linux_allows_is_absent(root: Path, path: str) -> None:
    assert HostRoot(root).read(path) is None


def test_a_folder_is_no_file_and_a_file_no_folder(root: Path) -> None:
    host = HostRoot(root)
    assert host.read("sys/devices/card") is None
    assert host.names("sys/devices/card/vendor") == ()


def test_a_pipe_and_a_socket_are_not_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "sys/class/pipe")
    monkeypatch.chdir(root / "sys/class")  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        host = HostRoot(root)
        assert host.read("sys/class/pipe") is None
        assert host.read("sys/class/socket") is None


def test_a_huge_file_is_read_to_the_limit_only(root: Path) -> None:
    with (root / "sys/huge").open("wb") as file:
        file.truncate(1024**3)
    content = HostRoot(root).read_bytes("sys/huge")
    assert content is not None
    assert len(content) == 64 * 1024
    assert HostRoot(root).read_bytes("sys/huge", 10) == bytes(10)


def test_bytes_that_are_no_utf8_are_replaced_in_text(root: Path) -> None:
    (root / "sys/binary").write_bytes(b"\xff\xfe\n")
    assert HostRoot(root).read("sys/binary") == "\ufffd\ufffd"


def test_names_that_are_no_utf8_are_left_out(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/sys/class/\xff")).mkdir()
    (root / "sys/class/good").mkdir()
    assert HostRoot(root).names("sys/class") == ("good",)


def test_names_are_sorted(root: Path) -> None:
    for name in ("c", "a", "b"):
        (root / "sys/class" / name).mkdir()
    assert HostRoot(root).names("sys/class") == ("a", "b", "c")


def test_a_fresh_one_sees_what_has_changed(root: Path) -> None:
    host = HostRoot(root)
    assert host.read("sys/devices/card/vendor") == "0x10de"
    (root / "sys/devices/card").rename(root / "sys/devices/moved")
    (root / "sys/devices/card").symlink_to("../../../outside")
    assert host.fresh().read("sys/devices/card/secret") is None


def test_the_root_may_be_given_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("root")
    assert HostRoot(tmp_path / "here").read("sys/devices/card/vendor") == "0x10de"


def test_the_running_host_is_the_default() -> None:
    assert HostRoot().is_folder("proc/self") or not Path("/proc/self").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [("missing", "does not exist"), ("archive.tar.bz2", "unpack an archive first"), ("nul\0", "cannot be opened")],
    ids=["missing", "an archive", "no path"],
)
def test_a_root_that_is_no_folder_is_the_users_error(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "archive.tar.bz2").write_bytes(b"BZh9")
    with pytest.raises(InputError, match=says):
        HostRoot(tmp_path / name)


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A root that its reader may enter, with a folder that he may not; root's rights are laid down for the test."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "sys/closed/inner").mkdir(parents=True)
        (root / "sys/unreadable").write_text("hidden")
        root.chmod(0o755)
        (root / "sys/unreadable").chmod(0)
        (root / "sys/closed").chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield root
        finally:
            os.seteuid(user)
            (root / "sys/closed").chmod(0o755)


def test_a_folder_that_may_not_be_listed_is_an_error_and_not_an_empty_folder(forbidden: Path) -> None:
    with pytest.raises(NodeError, match=r"sys/closed' cannot be listed: Permission denied"):
        HostRoot(forbidden).names("sys/closed")


def test_a_folder_below_one_that_may_not_be_searched_is_an_error_as_well(forbidden: Path) -> None:
    with pytest.raises(NodeError, match=r"sys/closed/inner' cannot be listed"):
        HostRoot(forbidden).names("sys/closed/inner")


def test_a_file_that_may_not_be_read_is_absent(forbidden: Path) -> None:
    host = HostRoot(forbidden)
    assert host.read("sys/unreadable") is None
    assert host.read("sys/closed/inner/file") is None
    assert host.resolve("sys/closed/inner") is None
