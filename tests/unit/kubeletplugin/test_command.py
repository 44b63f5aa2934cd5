"""The command line: help that teaches, mistakes in one line, and nothing loaded that is not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from driver.errors import InputError
from kubeletplugin.options import Options

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("NODE_NAME", "POD_UID")}


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "kubeletplugin", *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=ENVIRONMENT | environment,
    )


@pytest.mark.parametrize("optimize", ["0", "2"], ids=["with-docstrings", "without"])
def test_help_teaches(optimize: str) -> None:
    result = run("--help", PYTHONOPTIMIZE=optimize)
    assert result.returncode == 0
    for word in (
        "--host-root",
        "NODE_NAME",
        "SIGHUP",
        "runs on every node",
        "kubectl describe nodeinventory",
        "Exit codes",
    ):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param([], "--node-name", id="no-node"),
        pytest.param(["--node-name=A_b"], "'A_b' is not a DNS subdomain", id="bad-node"),
        pytest.param(["--node-name=n", "--log-level=loud"], "--log-level", id="level"),
        pytest.param(["--node-name=n", "--kubeconfig=/no/such"], "/no/such", id="kubeconfig"),
        pytest.param(["--node-name=n", "--host-root=/no/such"], "/no/such", id="host-root"),
        pytest.param(["--node-name=n", "--device-root=run/x"], "--device-root", id="device-root"),
        pytest.param(["--node-name=n", "--colour=red"], "--colour", id="no-such-flag"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(argv: list[str], says: str) -> None:
    result = run(*argv)
    line, *others = [text for text in result.stderr.splitlines() if not text.startswith("time=")]
    assert (result.returncode, others, result.stdout) == (2, [], "")
    assert line.startswith("rootport-kubelet-plugin: ")
    assert says in line


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param({"namespace": "a.b"}, "--namespace", id="namespace"),
        pytest.param({"instance": "../../x"}, "--instance", id="instance-climbs"),
        pytest.param({"cdi_dir": Path("cdi")}, "--cdi-dir: expected an absolute path", id="relative"),
        pytest.param({"cni_conf_dir": Path("/etc/cni/net.d")}, "expected both or neither", id="half-of-cni"),
        pytest.param(
            {"cni_conf_dir": Path("/etc/cni/net.d"), "cni_bin_dir": Path("bin")}, "--cni-bin-dir", id="relative-cni"
        ),
        pytest.param({"health_port": 99_999}, "--health-port", id="port"),
        pytest.param({"rival_hold_s": float("nan")}, "--rival-hold", id="no-time"),
        pytest.param({"rival_hold_s": -1.0}, "--rival-hold", id="negative-time"),
        pytest.param({"heartbeat_interval_s": 60.0}, "--heartbeat-interval", id="slow-heart"),
        pytest.param({"plugin_dir": Path("/a/../b")}, "--plugin-dir", id="climbing"),
        pytest.param({"registry_dir": Path("/" + 100 * "r")}, "Linux allows 107", id="socket-path"),
        pytest.param({"discovery_interval_s": 0.0}, "--discovery-interval", id="hot-loop"),
        pytest.param({"discovery_interval_s": float("nan")}, "--discovery-interval", id="not-a-number"),
        pytest.param({"discovery_interval_s": float("inf")}, "--discovery-interval", id="never"),
        pytest.param({"heartbeat_interval_s": float("nan")}, "--heartbeat-interval", id="no-heartbeat"),
        pytest.param({"health_port": -1}, "--health-port", id="negative-port"),
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, object], says: str) -> None:
    good = Options(node="n")
    good.check()
    with pytest.raises(InputError, match=says):
        replace(good, **wrong).check()  # type: ignore[arg-type]


def test_the_plugin_loads_no_more_than_it_needs() -> None:
    script = "import sys, kubeletplugin.process; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = result.stdout.split()
    unwanted = ("celpy", "lark", "re2", "rich", "driver.allocator", "driver.cel", "driver.simulation", "driver.cli")
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "kubernetes.client.models.v1_pod" not in loaded


def test_help_waits_for_neither_grpc_nor_kubernetes() -> None:
    script = "import sys, kubeletplugin.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"grpc", "kubernetes"} & set(loaded)
