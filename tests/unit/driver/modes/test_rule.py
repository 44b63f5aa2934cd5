"""Which layout a cluster gets, and what says why."""

from __future__ import annotations

import pytest

from driver.modes.rule import Choice, Layout, choose


@pytest.mark.parametrize(
    ("minor", "nodes", "former", "layout", "reason"),
    [
        pytest.param(36, 1, None, "full", "SmallCluster", id="1.36-one-node"),
        pytest.param(37, 1, None, "full", "SmallCluster", id="1.37-one-node"),
        pytest.param(36, 16, None, "full", "SmallCluster", id="1.36-at-the-limit"),
        pytest.param(36, 17, None, "one", "CountersSlowScheduler", id="1.36-above-the-limit"),
        pytest.param(35, 17, None, "one", "CountersSlowScheduler", id="1.35-above-the-limit"),
        pytest.param(37, 17, None, "lean", "LargeCluster", id="1.37-above-the-limit"),
        pytest.param(38, 5000, None, "lean", "LargeCluster", id="1.38-large"),
        pytest.param(37, 16, "full", "full", "SmallCluster", id="grown-to-the-limit"),
        pytest.param(37, 17, "full", "lean", "LargeCluster", id="grown-beyond"),
        pytest.param(37, 16, "lean", "lean", "LargeCluster", id="shrunk-a-little"),
        pytest.param(37, 13, "lean", "lean", "LargeCluster", id="shrunk-not-enough"),
        pytest.param(37, 12, "lean", "full", "SmallCluster", id="shrunk"),
        pytest.param(36, 13, "one", "one", "CountersSlowScheduler", id="1.36-shrunk-not-enough"),
        pytest.param(37, 13, "one", "lean", "LargeCluster", id="upgraded-to-1.37"),
        pytest.param(36, 100, "lean", "one", "CountersSlowScheduler", id="back-to-1.36"),
    ],
)
def test_version_and_size_choose_the_layout(
    minor: int, nodes: int, former: str | None, layout: str, reason: str
) -> None:
    chosen = choose(minor=lambda: minor, has_counters=True, nodes=nodes, former=Layout(former) if former else None)
    assert (chosen.layout, chosen.reason) == (layout, reason)


@pytest.mark.parametrize("override", list(Layout))
@pytest.mark.parametrize("nodes", [1, 1000])
@pytest.mark.parametrize("minor", [36, 37])
def test_an_administrator_overrules_it(override: Layout, nodes: int, minor: int) -> None:
    chosen = choose(minor=lambda: minor, has_counters=True, nodes=nodes, override=override)
    assert chosen == Choice(layout=override, reason="Configured", message=f"--gpu-layout is {override}")


@pytest.mark.parametrize("override", [None, *Layout])
@pytest.mark.parametrize("minor", [34, 36, 37])
def test_without_counters_a_gpu_has_one_mode_whatever_is_wanted(override: Layout | None, minor: int) -> None:
    chosen = choose(minor=lambda: minor, has_counters=False, nodes=1, override=override)
    assert (chosen.layout, chosen.reason) == ("one", "CountersDropped")
    assert ("is ignored" in chosen.message) is (override in ("full", "lean"))
    assert "DRAPartitionableDevices" in chosen.message
    assert ("Kubernetes 1.34" in chosen.message) is (minor == 34), "there no gate helps"
