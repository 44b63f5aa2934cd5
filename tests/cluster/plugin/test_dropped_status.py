"""Claims' status at an API server that drops ``status.devices``: nothing else of a claim changes, and it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from kubeletplugin.claims.status import ClaimStatusPublisher
from kubeletplugin.publish.conditions import ConditionReport
from tests.cluster.plugin.test_claim_status import Claims
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.plugin_process import Cluster
from tests.unit.kubeletplugin.claims.test_claim_status import NODE, NOW, prepared


@pytest.mark.needs_go
@pytest.mark.until_kubernetes(35, "from 1.36 on other gates need this one, and from 1.37 on it is always on")
def test_what_is_dropped_is_told_once_with_its_gate(cluster_binaries: Binaries, tmp_path: Path) -> None:
    told: list[ConditionReport] = []
    gate = "DRAResourceClaimDeviceStatus"
    with ControlPlane(tmp_path / "dropping", cluster_binaries, feature_gates=f"{gate}=false") as plane:
        install(plane)
        claims = Claims(Cluster(plane))
        for name in ("one", "two"):
            claims.add(name, prepared(share=None))
        with KubernetesApi.connect(kubeconfig=Cluster(plane).add_node(NODE)) as api:
            ClaimStatusPublisher(api, entries=claims.current, wall=lambda: NOW, report=told.append).publish()
        assert claims.own_entries("one") == []
        assert claims.get("one")["status"]["allocation"]
    (report,) = told
    assert (report.type, report.status) == ("DeviceStatusKept", "False")
    assert f"{gate} is off" in report.message
