"""``rootport-cni`` as it runs on a node, with a state folder of the tests' own, and a server for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPO

_SHIM = REPO / "kubeletplugin" / "network" / "cni" / "shim"
POD = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """The compiled program.

    Attributes:
        program: Its path.
        state_dir: What it was compiled for.
    """

    program: Path
    state_dir: Path

    def command(
        self, command: str, *, uid: str = POD, arguments: str | None = None, netns: str = "/run/netns/x"
    ) -> Any:
        """A running call, as containerd makes it (containerd v2.2.3, internal/cri/server/sandbox_run.go)."""
        if arguments is None:
            arguments = (
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=train-0;"
                f"K8S_POD_INFRA_CONTAINER_ID=8c1d;K8S_POD_UID={uid}"
            )
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": "8c1d",
            "CNI_NETNS": netns,
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": arguments,
            "CNI_PATH": "/opt/cni/bin",
            "ASAN_OPTIONS": "detect_leaks=0",  # it ends after one call
        }
        return subprocess.Popen(
            [self.program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, command: str, config: bytes | dict[str, Any] | None = None, **options: Any) -> Answer:
        content = config if isinstance(config, bytes) else json.dumps(config or {}).encode()
        with self.command(command, **options) as process:
            stdout, stderr = process.communicate(content, timeout=30)
        return Answer(status=process.returncode, stdout=stdout, stderr=stderr)

    def know(self, uid: str = POD) -> Path:
        """Make the state know a pod, as prepare does."""
        folder = self.state_dir / "pods" / uid
        folder.mkdir(parents=True)
        return folder


@pytest.fixture(scope="session")
def compiled(require_tool: Callable[[str], None]) -> Iterator[Shim]:
    """Compiled once; with the sanitizers where the compiler has them, so that every test is a test of memory too."""
    require_tool("cc")
    # A socket's path is short, and pytest's folders need not be.
    with tempfile.TemporaryDirectory(prefix="cni-") as folder:
        state_dir, program = Path(folder, "state"), Path(folder, "rootport-cni")
        flags = [f'-DSTATE_DIR="{state_dir}"', "-DPATIENCE_MS=600", "-DANSWER_MS=3000", "-Wall", "-Wextra", "-Werror"]
        command = ["cc", "-O1", "-g", *flags, "-o", program, *sorted(_SHIM.glob("*.c"))]
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        if subprocess.run([*command, *sanitizers], capture_output=True, check=False).returncode != 0:
            subprocess.run(command, check=True)
        yield Shim(program=program, state_dir=state_dir)


@pytest.fixture
def shim(compiled: Shim) -> Iterator[Shim]:
    shutil.rmtree(compiled.state_dir, ignore_errors=True)
    compiled.state_dir.mkdir()
    yield compiled
    shutil.rmtree(compiled.state_dir, ignore_errors=True)


@pytest.fixture
def me() -> int:
    return os.getuid()
