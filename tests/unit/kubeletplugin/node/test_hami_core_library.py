"""HAMi-core's library on a node: what is taken for it, what is not and why, and what it is called."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kubeletplugin.node.hami_core_library import HamiCoreFile
from kubeletplugin.node.loading import loading_problem
from kubeletplugin.node.roots import Roots
from tests.support.stub_hami import BROKEN, build, build_needing

_PATH = Path("/usr/local/vgpu/libvgpu.so")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path, clock: Clock) -> HamiCoreFile:
    return HamiCoreFile(Roots.of(tmp_path, ""), _PATH, clock=clock)


def install(host: Path, content: bytes, name: str = "libvgpu.so") -> Path:
    library = host / "usr/local/vgpu" / name
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(content)
    library.chmod(0o755)
    return library


def test_a_library_that_loads_is_hami_core(tmp_path: Path, file: HamiCoreFile) -> None:
    install(tmp_path, build())
    check = file.checked()
    assert check.problem == ""
    assert check.library is not None
    assert check.library.host_path == str(_PATH)
    assert check.library.version == f"sha256:{hashlib.sha256(build()).hexdigest()[:12]}"


def test_what_no_program_calls_need_not_be_there(tmp_path: Path, file: HamiCoreFile) -> None:
    """Releases up to 2.6 have a call of ``_dl_sym``, which newer C libraries lack, and work all the same."""
    install(tmp_path, build("LAZY"))
    assert file.checked().library is not None


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_library_is_told_with_its_path(tmp_path: Path, file: HamiCoreFile, broken: str) -> None:
    make, said = BROKEN[broken]
    install(tmp_path, make())
    started = time.monotonic()
    check = file.checked()
    assert check.library is None
    assert check.problem.startswith(f"{_PATH} {said}"), check.problem
    assert time.monotonic() - started < 8


def test_a_library_that_is_not_there_is_told(file: HamiCoreFile) -> None:
    assert file.checked().problem == f"there is no {_PATH} on the node"


def test_one_that_only_root_can_read_would_leave_other_users_without_limits(tmp_path: Path, file: HamiCoreFile) -> None:
    install(tmp_path, build()).chmod(0o750)
    assert file.checked().problem.startswith(f"{_PATH} cannot be read by every user")


@pytest.mark.parametrize(
    ("changed", "mode"), [("usr/local/vgpu/libvgpu.so", 0o757), ("usr/local/vgpu", 0o775), ("usr/local", 0o777)]
)
def test_what_others_can_change_is_not_run(tmp_path: Path, file: HamiCoreFile, changed: str, mode: int) -> None:
    install(tmp_path, build("EXITS"))
    (tmp_path / changed).chmod(mode)
    assert file.checked().problem.startswith(f"{_PATH} is not tried: others than root can change /{changed};")


@pytest.mark.parametrize("owned", ["usr/local/vgpu/libvgpu.so", "usr/local/vgpu"])
def test_what_another_user_owns_is_not_run(tmp_path: Path, file: HamiCoreFile, owned: str) -> None:
    install(tmp_path, build("EXITS"))
    os.chown(tmp_path / owned, 1000, 0)
    assert file.checked().problem.startswith(f"{_PATH} is not tried: others than root can change /{owned};")


def test_a_sticky_folder_protects_what_is_roots(tmp_path: Path, file: HamiCoreFile) -> None:
    install(tmp_path, build())
    (tmp_path / "usr").chmod(0o1777)
    assert file.checked().problem == ""


def processes_with(library: Path) -> list[str]:
    """The processes that have the library in their memory."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            if str(library) in maps.read_text():
                found.append(maps.parent.name)
    return found


@pytest.mark.parametrize(("macro", "said"), [("FORKS", None), ("ESCAPES", "has not finished loading after 1 s")])
def test_nothing_that_it_starts_is_left_running(tmp_path: Path, macro: str, said: str | None) -> None:
    library = install(tmp_path, build(macro))
    assert loading_problem(library, timeout_s=1.0) == said
    assert processes_with(library) == []


def test_it_does_not_run_as_root(tmp_path: Path) -> None:
    library = install(tmp_path, build("TELLS_USER"))
    assert loading_problem(library) == "does not load: user 65521, group 65521"


def test_a_folder_in_its_place_is_no_library(tmp_path: Path, file: HamiCoreFile) -> None:
    (tmp_path / "usr/local/vgpu/libvgpu.so").mkdir(parents=True)
    assert "is no file" in file.checked().problem


def test_it_is_called_as_hamis_installer_names_it(tmp_path: Path, file: HamiCoreFile) -> None:
    """Where only files with versions are there, it is the newest of them."""
    for version in ("v2.9.0", "v2.10.1", "v2.4.1"):
        install(tmp_path, build(), f"libvgpu.so.{version}")
    install(tmp_path, b"", "libvgpu.so.bak")
    library = file.checked().library
    assert library is not None
    assert (library.host_path, library.version) == (f"{_PATH}.v2.10.1", "v2.10.1")


def test_a_link_leads_to_the_version(tmp_path: Path, file: HamiCoreFile) -> None:
    install(tmp_path, build(), "libvgpu.so.v2.9.0-rc.1")
    (tmp_path / "usr/local/vgpu/libvgpu.so").symlink_to("libvgpu.so.v2.9.0-rc.1")
    library = file.checked().library
    assert library is not None
    assert (library.host_path, library.version) == (f"{_PATH}.v2.9.0-rc.1", "v2.9.0-rc.1")


def test_it_is_examined_again_only_after_a_change(
    tmp_path: Path, file: HamiCoreFile, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def counted(library: Path, before: tuple[Path, ...]) -> str | None:
        tries.append(library)
        return loading_problem(library, before)

    monkeypatch.setattr("kubeletplugin.node.hami_core_library.loading_problem", counted)
    library = install(tmp_path, build())
    for clock.now in (0.0, 40.0, 4000.0):
        assert file.checked().library is not None
    assert len(tries) == 1
    install(tmp_path, build("EXITS"))
    os.utime(library, ns=(1, 1))
    for clock.now in (5000.0, 5010.0, 5029.0):
        assert file.checked().library is None
    assert len(tries) == 2
    clock.now = 5030.0  # what it needs may be there by now
    assert file.checked().library is None
    assert len(tries) == 3


def test_a_library_that_lacks_cuda_is_told(tmp_path: Path, file: HamiCoreFile) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    install(tmp_path, build_needing(elsewhere))
    problem = file.checked().problem
    assert problem.startswith(f"{_PATH} does not load: ")
    assert "libcuda.so.1: cannot open shared object file" in problem


def test_cuda_is_taken_from_the_hosts_driver(tmp_path: Path, file: HamiCoreFile) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.95.05\n")
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    install(tmp_path, build_needing(folder))
    (folder / "libcuda.so.1").rename(folder / "libcuda.so.580.95.05")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    assert file.checked().problem == ""


def test_a_path_with_a_space_and_a_colon_is_one_path(tmp_path: Path) -> None:
    library = tmp_path / "a b:c.so"
    library.write_bytes(build())
    assert loading_problem(library) is None
