"""RDMA and SR-IOV device plugins by the resource map, and the networks that Multus attaches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.convert import Outcome, Settings, convert
from driver.convert.requests import NicRequest
from tests.unit.driver.convert.dialects.reading import NOTED, REFUSED, outcomes, read, refused

NETWORKS = "k8s.v1.cni.cncf.io/networks"
VF = "openshift.io/mlnxnics"
SETTINGS = Settings(
    resources={
        VF: NicRequest(is_vf=True, selectors=("true",)),
        "rdma/shared_*": NicRequest(bandwidth=10**9),
        "intel.com/pairs": NicRequest(count=2),
    },
    networks={"ml/roce": VF, "storage": VF},
    left_alone=frozenset({"openshift.io/dpdk"}),
)


@pytest.mark.parametrize(
    ("limits", "wanted", "found"),
    [
        pytest.param({"rdma/hca_shared_devices_a": 1}, [NicRequest()], {"rdma/hca_shared_devices_a": NOTED}, id="rdma"),
        pytest.param(
            {"rdma/shared_a": 2}, [NicRequest(count=2, bandwidth=10**9)], {}, id="rdma, mapped by its beginning"
        ),
        pytest.param({VF: 2}, [NicRequest(count=2, is_vf=True, selectors=("true",))], {}, id="mapped by its name"),
        pytest.param({"intel.com/pairs": 3}, [NicRequest(count=6)], {}, id="several for one unit"),
        pytest.param({"nvidia.com/hostdev": 1}, [], {"nvidia.com/hostdev": REFUSED}, id="hostdev"),
        pytest.param({"openshift.io/other": 1}, [], {"openshift.io/other": REFUSED}, id="a name that nothing maps"),
        pytest.param(
            {"intel.com/intel_sriov_netdevice": 1}, [], {"intel.com/intel_sriov_netdevice": REFUSED}, id="intel"
        ),
        pytest.param({"mellanox.com/cx5": 1}, [], {"mellanox.com/cx5": REFUSED}, id="mellanox"),
        pytest.param({"openshift.io/dpdk": 1}, [], {}, id="left alone"),
        pytest.param({"intel.com/qat_generic": 1}, [], {}, id="no NIC"),
    ],
)
def test_a_resource_is_the_nics_that_the_map_says(
    limits: dict[str, int], wanted: list[NicRequest], found: dict[str, Outcome]
) -> None:
    request, findings = read(limits, settings=SETTINGS)
    assert list(request.nics) == wanted
    assert outcomes(findings) == found


@pytest.mark.parametrize(
    ("written", "interfaces"),
    [
        pytest.param("ml/roce", ["net1"], id="its default name"),
        pytest.param("roce@rdma0,ml/roce@rdma1", None, id="a name without its namespace"),
        pytest.param("ml/roce@rdma0, storage", ["rdma0", "net2"], id="two"),
        pytest.param("x/storage", None, id="a network of that name in another namespace"),
        pytest.param(json.dumps([{"name": "roce", "namespace": "ml", "interface": "rdma7"}]), ["rdma7"], id="JSON"),
    ],
)
def test_a_mapped_network_becomes_the_interface_of_the_claim(written: str, interfaces: list[str] | None) -> None:
    count = len(interfaces) if interfaces else 1
    request, findings = read({VF: count}, annotations={NETWORKS: written}, settings=SETTINGS)
    if interfaces is None:
        assert refused(findings)
        return
    assert [(nic.count, nic.interface) for nic in request.nics] == [(1, name) for name in interfaces]
    assert outcomes(findings) == {NETWORKS: Outcome.CONVERTED, VF: NOTED}


@pytest.mark.parametrize(
    ("limits", "written", "at_fault"),
    [
        pytest.param({VF: 1}, "ml/roce,macvlan", NETWORKS, id="one of two is not mapped"),
        pytest.param({VF: 1}, "other", VF, id="none is mapped, and its own could be meant"),
        pytest.param({VF: 2}, "ml/roce", VF, id="more devices than networks"),
        pytest.param({"rdma/shared_a": 1}, "ml/roce", NETWORKS, id="nobody asks for its device"),
        pytest.param({VF: 1}, "ml/roce@eth0", NETWORKS, id="a name that the pod has"),
        pytest.param({VF: 2}, "ml/roce@x,ml/roce@x", NETWORKS, id="an interface twice"),
        pytest.param({VF: 2}, "ml/roce@net2,ml/roce", NETWORKS, id="an interface that another has by default"),
        pytest.param({VF: 1}, "a b", NETWORKS, id="no network's name"),
        pytest.param({VF: 1}, "[{", NETWORKS, id="no JSON"),
        pytest.param({VF: 1}, "[1]", NETWORKS, id="no object"),
        pytest.param({VF: 1}, '[{"name": 1}]', NETWORKS, id="no name"),
        pytest.param({VF: 1}, '[{"name": "a", "namespace": "\\u001b[2J"}]', NETWORKS, id="a namespace that is none"),
        pytest.param({VF: 1}, '[{"name": "storage", "interface": "a b"}]', NETWORKS, id="an interface that is none"),
        pytest.param({VF: 1}, '[{"name": "storage", "ips": ["10.0.0.1"]}]', NETWORKS, id="addresses"),
        pytest.param({VF: 1}, ",".join(["storage"] * 40), NETWORKS, id="too many"),
        pytest.param({VF: 1}, "storage," * 5000, NETWORKS, id="too long"),
    ],
)
def test_networks_that_cannot_be_known_are_refused(limits: dict[str, int], written: str, at_fault: str) -> None:
    _, findings = read(limits, annotations={NETWORKS: written}, settings=SETTINGS)
    assert set(refused(findings)) == {at_fault}


def test_networks_of_a_shared_nic_stay_with_a_note() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"annotations": {NETWORKS: "macvlan"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"rdma/hca": 1}}}]},
    }
    result = convert(pod)
    assert result.outcome is NOTED
    assert result.object["metadata"]["annotations"] == {NETWORKS: "macvlan"}


@pytest.mark.parametrize(
    ("metadata", "written", "words"),
    [
        pytest.param({}, "roce", "the resource map has ml/roce: write metadata.namespace", id="no namespace"),
        pytest.param({"namespace": "x"}, "roce", "nothing says whether the network roce", id="another namespace"),
    ],
)
def test_a_network_without_a_namespace_is_the_pods_own(metadata: dict[str, str], written: str, words: str) -> None:
    pod = networked({VF: 1})
    pod["metadata"] = {**metadata, "annotations": {NETWORKS: written}}
    [at_fault] = [finding for finding in convert(pod, SETTINGS).findings if finding.outcome is REFUSED]
    assert words in at_fault.text


def networked(*limits: dict[str, int], init: tuple[dict[str, int], ...] = ()) -> dict[str, Any]:
    """A pod with one network and containers with these limits."""

    def containers(name: str, several: tuple[dict[str, int], ...]) -> list[dict[str, Any]]:
        return [{"name": f"{name}-{at}", "resources": {"limits": each}} for at, each in enumerate(several)]

    return {
        "kind": "Pod",
        "metadata": {"annotations": {NETWORKS: "ml/roce"}},
        "spec": {"containers": containers("main", limits), "initContainers": containers("init", init)},
    }


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        pytest.param(networked({VF: 1}, {VF: 1}), "main-1", id="two containers"),
        pytest.param(
            networked({VF: 1}, init=({VF: 1, "nvidia.com/gpu": 1},)), "main-0", id="an init container with a claim"
        ),
    ],
)
def test_a_network_is_attached_once(pod: dict[str, Any], container: str) -> None:
    result = convert(pod, SETTINGS)
    assert result.object is pod
    [at_fault] = [finding for finding in result.findings if finding.outcome is REFUSED]
    assert (at_fault.container, at_fault.dialect) == (container, "RDMA and SR-IOV device plugins")
    assert "net1" in at_fault.text


def test_an_init_container_uses_the_interface_of_the_containers_claim() -> None:
    assert len(convert(networked({VF: 1}, {"cpu": 1}, init=({VF: 1},)), SETTINGS).templates) == 1


@pytest.mark.parametrize(("namespace", "written"), [("", "ml/roce"), ("ml", "roce"), ("x", "ml/roce")])
def test_networks_whose_place_a_claim_takes_leave_the_pod(namespace: str, written: str) -> None:
    metadata = {"name": "p"} | ({"namespace": namespace} if namespace else {})
    pod = {
        "kind": "Pod",
        "metadata": {**metadata, "annotations": {NETWORKS: written}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {VF: 1}}}]},
    }
    result = convert(pod, SETTINGS)
    assert result.object["metadata"] == metadata
    [template] = result.templates
    [config] = template["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"]["interface"] == {"name": "net1"}
    assert convert(result.object, SETTINGS).outcome is Outcome.UNCHANGED
