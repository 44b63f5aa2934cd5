"""Programs of the host: in its root, with what they are given and nothing else, and for a limited time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.errors import NodeError
from kubeletplugin.effects.host_command import HostPrograms
from kubeletplugin.node.roots import Roots
from tests.support.needed_tools import unavailable

# What a program finds: its working folder, root, arguments, environment, open files, session and standard input.
_PROBE = r"""
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "flood") == 0) {
        char block[1024];
        memset(block, 'x', sizeof block);
        for (int i = 0; i < 4096; i++)
            if (write(1, block, sizeof block) < 0)
                return 7;
        return 0;
    }
    if (count == 2 && strcmp(arguments[1], "sleep") == 0) {
        puts("still here");
        fflush(stdout);
        if (fork() == 0)
            pause();
        pause();
    }
    if (count == 2 && strcmp(arguments[1], "background") == 0)
        return fork() == 0 ? sleep(1) : 0;
    char text[100] = "";
    printf("cwd=%s\n", getcwd(text, sizeof text));
    for (int i = 1; i < count; i++)
        printf("argument=%s\n", arguments[i]);
    for (char **variable = environ; *variable; variable++)
        printf("env=%s\n", *variable);
    for (int file = 0; file < 64; file++) {
        struct stat found;
        if (fstat(file, &found) == 0)
            printf("file=%d\n", file);
    }
    printf("session=%d\n", getsid(0) == getpid());
    printf("marker=%d\n", access("/marker", F_OK) == 0);
    if (fgets(text, sizeof text, stdin))
        printf("stdin=%s", text);
    return count > 1 ? 3 : 0;
}
"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0:
        unavailable("chroot needs root")
    if shutil.which("cc") is None:
        unavailable("cc is not installed on this machine")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text(_PROBE)
    subprocess.run(["cc", "-static", "-o", str(folder / "nvidia-smi"), str(folder / "probe.c")], check=True)
    return folder / "nvidia-smi"


@pytest.fixture
def programs(tmp_path: Path, probe: Path) -> HostPrograms:
    (tmp_path / "usr/bin").mkdir(parents=True)
    shutil.copy(probe, tmp_path / "usr/bin/nvidia-smi")
    (tmp_path / "marker").touch()
    return HostPrograms(_roots(tmp_path))


def _roots(host: Path, driver_root: str = "") -> Roots:
    return Roots(hardware=HostRoot(host), host=HostRoot(host), device_root="", driver_root=driver_root)


def test_a_program_gets_its_root_its_arguments_and_nothing_of_the_plugins(
    programs: HostPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("SECRET", "token")
    with (programs.root / "marker").open() as open_file:
        os.set_inheritable(open_file.fileno(), True)
        finished = programs.run(
            "nvidia-smi", ["-i", "$(id) ; *"], doing="gpu", environment={"A": "b"}, stdin="hello\n", timeout_s=5
        )
    assert finished.status == 3
    lines = finished.output.splitlines()
    assert [line for line in lines if not line.startswith("env=")] == [
        "cwd=/",
        "argument=-i",
        "argument=$(id) ; *",
        "file=0",
        "file=1",
        "file=2",
        "session=1",
        "marker=1",
        "stdin=hello",
    ]
    assert sorted(line.partition("=")[2].partition("=")[0] for line in lines if line.startswith("env=")) == [
        "A",
        "LC_ALL",
        "PATH",
    ]


def test_without_another_root_a_program_is_run_as_it_is() -> None:
    assert HostPrograms(_roots(Path("/"))).run("true", doing="gpu", timeout_s=5).status == 0


def test_output_is_bounded(programs: HostPrograms) -> None:
    finished = programs.run("nvidia-smi", ["flood"], doing="gpu", timeout_s=5)
    assert finished.status == 7
    assert len(finished.output) == 64 * 1024
    assert len(str(finished)) < 600


def test_a_program_that_hangs_is_killed_with_its_children(programs: HostPrograms) -> None:
    with pytest.raises(NodeError, match=r"gpu-1: nvidia-smi did not end within 0\.2 s .*still here.*dmesg"):
        programs.run("nvidia-smi", ["sleep"], doing="gpu-1", timeout_s=0.2)
    left = [entry for entry in Path("/proc").glob("[0-9]*/root") if _is(entry, programs.root)]
    assert not left


def _is(entry: Path, root: Path) -> bool:
    try:
        # A killed child may not have been buried yet: then it has no command line any more.
        return entry.samefile(root) and bool((entry.parent / "cmdline").read_bytes())
    except OSError:
        return False


def test_what_a_program_leaves_in_the_background_is_not_waited_for(programs: HostPrograms) -> None:
    assert programs.run("nvidia-smi", ["background"], doing="gpu", timeout_s=0.5).status == 0


@pytest.mark.parametrize(
    ("driver_root", "program", "says"),
    [
        ("", "nvidia-cuda-mps-control", r"gpu-1: .* has no nvidia-cuda-mps-control .*/usr/bin.*nvidia-compute-utils"),
        ("/run/nvidia/driver", "nvidia-smi", r"gpu-1: the driver's root is not there: .*wait until the driver's cont"),
    ],
    ids=["no-program", "no-driver-container"],
)
def test_what_is_not_there_is_named(programs: HostPrograms, driver_root: str, program: str, says: str) -> None:
    programs = HostPrograms(_roots(programs.root, driver_root))
    with pytest.raises(NodeError, match=says):
        programs.run(program, doing="gpu-1", timeout_s=5)


def test_a_program_that_cannot_run_in_its_root_says_why(programs: HostPrograms) -> None:
    (programs.root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
    finished = programs.run("nvidia-smi", doing="gpu", timeout_s=5)
    assert finished.status == 127
    assert "No such file or directory" in str(finished)


def test_a_folder_of_the_host_as_a_drivers_container_sees_it(tmp_path: Path) -> None:
    assert HostPrograms(_roots(tmp_path)).seen("/run/rootport") == "/run/rootport"
    inside = HostPrograms(_roots(tmp_path, "/run/nvidia/driver"))
    assert inside.seen("/run/nvidia/driver/run/rootport") == "/run/rootport"
    with pytest.raises(NodeError, match=r"cannot see /run/rootport .*device-root"):
        inside.seen("/run/rootport")
