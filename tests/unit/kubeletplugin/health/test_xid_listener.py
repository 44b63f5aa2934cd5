"""How a node's GPUs are listened to: a process of its own, with the real pynvml on the stub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.stub_nvml import H100_80GB, Machine, StubNvml, inject_xid, set_live

pytestmark = pytest.mark.needs_cc

ADDRESSES: Final = ("0000:13:00.0", "0000:23:00.0")

# A line for each time that it takes something, and for each time that it begins or ends.
_CHILD: Final = """\
import logging, sys, threading
from pathlib import Path
from driver.errors import NodeError
from driver.model.devices import Gpu
from driver.model.pci import PciAddress, PciePath
from kubeletplugin.health import xid_listener
from kubeletplugin.node.roots import Roots

retry, pause, *addresses = sys.argv[1:]
xid_listener._WAIT_S, xid_listener._RETRY_S, xid_listener._PAUSE_S = 0.1, float(retry), float(pause)
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
logging.getLogger().handlers[0].formatter = logging.Formatter("%(message)s %(gpus)s", defaults={"gpus": ""})
gpus = tuple(Gpu(address=PciAddress(a), pcie=PciePath(), index=n) for n, a in enumerate(addresses))
listener = xid_listener.XidListener(
    Roots.of(Path("/"), ""), gpus=lambda: gpus, take=lambda events: print("took", *(e.xid for e in events), flush=True)
)
def listen():
    try:
        listener.listen()
    except NodeError as error:
        print("failed", error)
    print("ended", flush=True)
thread = threading.Thread(target=listen)
thread.start()
sys.stdin.read()
listener.stop()
thread.join()
"""


class Listener:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self, beginning: str) -> str:
        """The next line that begins so; what comes before it is left out."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError(f"it has ended without {beginning!r}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()


def start(stub: StubNvml, state: Path, *, retry_s: float, pause_s: float = 0.0) -> subprocess.Popen[str]:
    gpus = tuple(H100_80GB.at(number, f"0000{address}") for number, address in enumerate(ADDRESSES))
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _CHILD, str(retry_s), str(pause_s), *ADDRESSES],
        env=stub.environment(Machine(gpus=gpus, state=str(state))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_gpu_that_cannot_be_heard_is_tried_again_without_a_pause(nvml_stub: StubNvml, tmp_path: Path) -> None:
    set_live(tmp_path, 1, lost=1)
    with start(nvml_stub, tmp_path, retry_s=0.2) as process:
        listener = Listener(process)
        listener.line("a GPU's errors are not heard of")
        for _ in range(2):
            assert listener.line("listening to what").endswith("reports 1")
        set_live(tmp_path, 1, lost=None)
        while not listener.line("listening to what").endswith("reports 2"):
            pass
        inject_xid(tmp_path, 1, 48)
        assert listener.line("took") == "took 48"
        listener.stop()
        listener.line("ended")


def test_a_failure_after_a_long_time_has_it_begin_anew_at_once(nvml_stub: StubNvml, tmp_path: Path) -> None:
    with start(nvml_stub, tmp_path, retry_s=0.1, pause_s=0.2) as process:
        listener = Listener(process)
        listener.line("listening to what")
        inject_xid(tmp_path, 0, 48)
        listener.line("took 48")
        set_live(tmp_path, 1, lost=1)
        assert listener.line("listening to NVIDIA's driver begins anew")
        listener.line("a GPU's errors are not heard of")
        listener.line("listening to what")
        inject_xid(tmp_path, 0, 79)
        assert listener.line("took") == "took 79"
        listener.stop()
        listener.line("ended")


def test_a_failure_at_once_is_told(nvml_stub: StubNvml, tmp_path: Path) -> None:
    for gpu in (0, 1):
        set_live(tmp_path, gpu, lost=1)
    with start(nvml_stub, tmp_path, retry_s=60) as process:
        assert "cannot be listened to" in Listener(process).line("failed")


def test_errors_without_end_are_taken_together(nvml_stub: StubNvml, tmp_path: Path) -> None:
    with start(nvml_stub, tmp_path, retry_s=60, pause_s=0.3) as process:
        listener = Listener(process)
        listener.line("listening to what")
        inject_xid(tmp_path, 0, 31)
        assert listener.line("took") == "took 31"
        for _ in range(50):
            inject_xid(tmp_path, 0, 31)
        inject_xid(tmp_path, 0, 79)
        assert listener.line("took") == f"took {'31 ' * 50}79"
        listener.stop()
