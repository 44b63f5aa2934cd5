"""How a controller starts where the DNS does not answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import start_controller
from tests.support.cluster.processes import Processes
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

# Python runs this when it starts.
_DEAD_DNS = """
import os, socket, time

def hang(*asked, **_):
    with open(os.environ["LOOKUPS"], "a") as file:
        file.write(f"{asked}\\n")
    time.sleep(20)
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

for name in ("getfqdn", "gethostbyaddr", "getnameinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, name, hang)
"""


def test_a_controller_leads_at_once_where_no_name_can_be_looked_up(installed: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_DEAD_DNS)
    lookups = tmp_path / "lookups"
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    processes = Processes(tmp_path / "logs")
    began = time.monotonic()
    try:
        controller = start_controller(
            installed,
            processes,
            f"--health-port={free_port()}",
            f"--https-port={free_port()}",
            env={"PYTHONPATH": path, "LOOKUPS": str(lookups)},
        )
        eventually("a leader", lambda: "elected" in controller.log.read_text())
        assert time.monotonic() - began < 15
        assert not lookups.exists(), lookups.read_text()
        assert controller.stop() == 0
    finally:
        processes.stop()
