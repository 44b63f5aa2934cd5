"""``rootport top``: through a real API server to real HTTP servers where the plugins' pods would be."""

from __future__ import annotations

import re

import pytest

from driver.adapters.http.metrics_reader import read_samples
from driver.cli.top_report import NodeLoad, print_loads
from driver.errors import NodeError
from driver.status.load import SAMPLES, device_loads
from tests.unit.driver.cli.plugin_page import plugin_page


def test_the_busiest_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    devices = device_loads(read_samples(plugin_page("n"), SAMPLES))
    loads = [NodeLoad(node=name, devices=devices) for name in ("n1", "n2")]
    print_loads(loads, sort="power", one_node=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines[1:]] == [
        ["n1", "gpu-0"], ["n2", "gpu-0"], ["n1", "gpu-1"], ["n2", "gpu-1"], ["n1", "gpu-10"], ["n2", "gpu-10"],
    ]  # fmt: skip


@pytest.mark.parametrize("sort", ["name", "memory"])
def test_all_nodes_stand_below_one_heading_within_80_columns(
    sort: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    devices = device_loads(read_samples(plugin_page("n"), SAMPLES))
    names = ("n1", "ip-10-0-12-155.eu-central-1.compute.internal")
    print_loads([NodeLoad(node=name, devices=devices) for name in names], sort=sort, one_node=False)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if "GPU" in line]) == 1
    assert len([line for line in lines if "gpu-0" in line]) == 2


def test_what_is_no_page_of_metrics_is_an_error_and_no_traceback() -> None:
    with pytest.raises(NodeError, match="cannot be read"):
        read_samples('rootport_device_info{node="n 1\n', SAMPLES)
    assert read_samples("<html>\n", SAMPLES) == ()
