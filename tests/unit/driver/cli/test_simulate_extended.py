"""`rootport simulate` of pods that ask for devices as extended resources, and of pods that name their node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.topologies import nccl_file

H100 = nccl_file("azure-nd-h100-v5")
OF_CLASS = "deviceclass.resource.kubernetes.io/gpu.rootport.dev"
OF_NAME = "nvidia.com/gpu"
Run = Callable[..., Any]


def class_of(resource: str) -> dict[str, Any]:
    selector = {
        "cel": {"expression": 'device.driver == "rootport.dev" && device.attributes["rootport.dev"].type == "gpu"'}
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "whole-gpus"},
        "spec": {"selectors": [selector], "extendedResourceName": resource},
    }


def claim(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    requests = [{"name": "gpus", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": count}}]
    spec = {"devices": {"requests": requests}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    } | more


def held(name: str, node: str, **status: Any) -> dict[str, Any]:
    """A claim that has a GPU of the node."""
    result = {"request": "gpus", "driver": "rootport.dev", "pool": node, "device": "gpu-0001-00-00-0"}
    return claim(name, status={"allocation": {"devices": {"results": [result]}}} | status)


def pod(name: str, *claims: str, node: str = "", status: Any = None, uid: str = "", **limits: str) -> dict[str, Any]:
    names = {"of_class": OF_CLASS, "of_name": OF_NAME}
    resources = {"limits": {"cpu": "1"} | {names.get(key, key): amount for key, amount in limits.items()}}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}
    spec["resourceClaims"] = [{"name": item, "resourceClaimName": item} for item in claims]
    metadata = {"name": name} | ({"uid": uid} if uid else {})
    placed = {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | placed, "status": status or {}}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def simulate(rootport: Run, tmp_path: Path, out: Path) -> Callable[..., Any]:
    """Runs it on nodes ``azure-nd-h100-v5-1``, ... with 8 GPUs each."""

    def simulate(*objects: dict[str, Any], code: int = 0) -> Any:
        path = tmp_path / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        ran = rootport("simulate", "--topology", H100, "--nodes", 2, "--claims", path, "--out", out, "-o", "json")
        assert ran.code == code, ran.err + ran.out
        return json.loads(ran.out) if code != 2 else ran.err

    return simulate


@pytest.fixture
def explain(rootport: Run, out: Path) -> Callable[..., Any]:
    return lambda pod: json.loads(rootport("explain", "pod", pod, "--from", out, "-o", "json").out)


def stored(out: Path, file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((out / file).read_text()))


@pytest.mark.parametrize(
    ("ask", "classes"),
    [
        pytest.param("of_class", (), id="named by its class"),
        pytest.param("of_name", (class_of(OF_NAME),), id="named by the class"),
    ],
)
def test_devices_of_extended_resources_are_taken_and_lacking(
    simulate: Callable[..., Any], explain: Callable[..., Any], out: Path, ask: str, classes: tuple[dict[str, Any], ...]
) -> None:
    result = simulate(*classes, *(pod(name, **{ask: "5"}) for name in "pqr"), code=1)
    assert [item["name"] for item in result["claims"]] == ["p-extended-resources", "q-extended-resources"]
    assert [len(item["devices"]) for item in result["claims"]] == [5, 5]
    assert [item["node"] for item in result["pods"]] == ["azure-nd-h100-v5-1", "azure-nd-h100-v5-2", None]
    assert [item["claims"] for item in result["pods"]] == [["p-extended-resources"], ["q-extended-resources"], []]
    assert result["pods"][2]["reason"] == "DevicesInUse"
    made = stored(out, "claims.yaml")[0]
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [holder["name"] for holder in made["status"]["reservedFor"]] == ["p"]
    assert stored(out, "pods.yaml")[0]["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": "p-extended-resources"
    }
    assert [explain(name)["reason"] for name in ("p", "r")] == ["Allocated", "DevicesInUse"]
    assert explain("r")["findings"][0]["message"] == result["pods"][2]["message"]


def test_a_pods_claims_and_extended_resources_are_on_one_node(simulate: Callable[..., Any]) -> None:
    result = simulate(claim("c", 5), claim("d", 5), pod("p", of_class="2"), pod("q", "c", of_class="2"), pod("r", "d"))
    nodes = {item["name"]: item["node"] for item in result["claims"]}
    first, second = "azure-nd-h100-v5-1", "azure-nd-h100-v5-2"
    assert nodes == {"p-extended-resources": first, "c": second, "q-extended-resources": second, "d": first}


def test_pods_of_a_deployment_have_their_extended_resources_each(simulate: Callable[..., Any]) -> None:
    spec = {"replicas": 5, "template": {"spec": pod("", of_class="4")["spec"]}}
    result = simulate({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}, code=1)
    assert [item["node"] is not None for item in result["pods"]] == [True] * 4 + [False]
    assert result["pods"][4]["reason"] == "DevicesInUse"


def test_a_class_that_an_extended_resource_names_and_that_is_not_there_is_told(simulate: Callable[..., Any]) -> None:
    gone = pod("p", **{"deviceclass.resource.kubernetes.io/gpus.rootport.dev": "1"})
    [told] = simulate(gone, code=1)["pods"]
    assert (told["node"], told["reason"]) == (None, "DeviceClassMissing")
    assert "did you mean gpu.rootport.dev?" in told["message"]


def test_of_a_pod_that_needs_a_device_plugin_as_well_nobody_says_that_it_fits(
    simulate: Callable[..., Any], rootport: Run, tmp_path: Path
) -> None:
    [told] = simulate(claim("c"), pod("p", "c", of_name="2"), code=1)["pods"]
    assert (told["node"], told["reason"]) == ("azure-nd-h100-v5-1", "ExtendedResourceNotEvaluated")
    assert "it asks for nvidia.com/gpu: 2 of a device plugin as well" in told["message"]
    table = rootport("simulate", "--topology", H100, "--claims", tmp_path / "objects.yaml").out
    assert "pod default/p: ExtendedResourceNotEvaluated\n" in table
    assert "1 of 1 claim allocated, 0 of 1 pod placed, not known of 1 whether it fits\n" in table


def test_of_a_pod_that_asks_a_device_plugin_alone_it_is_not_known_whether_it_fits(
    simulate: Callable[..., Any], explain: Callable[..., Any], rootport: Run, tmp_path: Path
) -> None:
    [told] = simulate(pod("p", of_name="2"), code=1)["pods"]
    assert (told["node"], told["reason"]) == (None, "ExtendedResourceNotEvaluated")
    assert "it asks for nvidia.com/gpu: 2 of a device plugin, which is not simulated" in told["message"]
    assert explain("p")["reason"] == "ExtendedResourceNotEvaluated"
    table = rootport("simulate", "--topology", H100, "--claims", tmp_path / "objects.yaml").out
    assert "0 of 0 claims allocated, 0 of 1 pod placed, not known of 1 whether it fits\n" in table


def test_a_pod_that_has_what_a_device_plugin_gave_it_is_not_used_and_may_be_anything(
    simulate: Callable[..., Any],
) -> None:
    odd = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": ["x", {"resources": {"limits": [1]}}]}}
    assert simulate(pod("p", of_name="2", node="n"), odd)["pods"] == []


def test_a_claim_that_was_made_of_extended_resources_already_is_the_pods(simulate: Callable[..., Any]) -> None:
    made = held("p-extended-resources-x7k", "azure-nd-h100-v5-2")
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-x7k", "requestMappings": []}}
    result = simulate(made, pod("p", status=status, node="azure-nd-h100-v5-2", of_class="1"))
    assert [item["claims"] for item in result["pods"]] == [["p-extended-resources-x7k"]]
    assert len(result["claims"]) == 1


def test_very_many_resources_of_a_pod_are_refused(simulate: Callable[..., Any]) -> None:
    many = {f"deviceclass.resource.kubernetes.io/c{number}": "1" for number in range(300)}
    assert "spec: containers name more than 256 resources" in simulate(pod("p", **many), code=2)


@pytest.mark.parametrize(
    ("replicas", "long"), [pytest.param(10_001, 0, id="many pods"), pytest.param(2_000, 50_000, id="long containers")]
)
def test_pods_with_extended_resources_are_bounded(simulate: Callable[..., Any], replicas: int, long: int) -> None:
    of_pods = pod("", of_class="4")["spec"]
    of_pods["containers"][0]["resources"]["limits"]["x" * long] = "1"
    spec = {"replicas": replicas, "template": {"spec": of_pods}}
    many = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
    assert "spec: with it pods name more than 10000 claims and resources" in simulate(many, code=2)


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(pod("p", "c", node="azure-nd-h100-v5-2"), id="its claim"),
        pytest.param(pod("p", of_class="1", node="azure-nd-h100-v5-2"), id="its extended resources"),
    ],
)
def test_for_a_pod_that_names_its_node_nobody_allocates(
    simulate: Callable[..., Any], explain: Callable[..., Any], named: dict[str, Any]
) -> None:
    [told] = simulate(claim("c"), named, code=1)["pods"]
    assert (told["node"], told["reason"]) == (None, "PrepareFails")
    assert "spec.nodeName (azure-nd-h100-v5-2) keeps kube-scheduler from allocating for it: " in told["message"]
    assert explain("p")["reason"] == "PrepareFails"


def test_a_pod_that_names_its_node_has_the_claims_that_are_allocated_there(simulate: Callable[..., Any]) -> None:
    there = held("c", "azure-nd-h100-v5-2")
    [told] = simulate(there, pod("p", "c", node="azure-nd-h100-v5-2"))["pods"]
    assert told["node"] == "azure-nd-h100-v5-2"
    [told] = simulate(there, pod("p", "c", node="azure-nd-h100-v5-1"), code=1)["pods"]
    assert (told["node"], told["reason"]) == (None, "ClaimElsewhere")
    assert "claim default/c is allocated on node azure-nd-h100-v5-2" in told["message"]


@pytest.mark.parametrize(
    ("driver", "says"),
    [
        ("rootport.dev", "claim default/c is allocated on node elsewhere, which is not simulated"),
        ("x.example", "claim default/c is allocated with devices of other drivers alone, which are not simulated"),
    ],
)
def test_a_claim_that_is_on_no_simulated_node_is_told_where_it_is(
    simulate: Callable[..., Any], driver: str, says: str
) -> None:
    there = held("c", "elsewhere")
    there["status"]["allocation"]["devices"]["results"][0]["driver"] = driver
    [told] = simulate(there, pod("p", "c"), code=1)["pods"]
    assert (told["reason"], told["message"]) == ("ClaimElsewhere", says)


def test_pods_that_a_claim_is_reserved_for_count_and_stay(simulate: Callable[..., Any], out: Path) -> None:
    others = [{"resource": "pods", "name": f"o{number}", "uid": f"u{number}"} for number in range(255)]
    shared = held("c", "azure-nd-h100-v5-1", reservedFor=[*others, {"resource": "pods", "name": "p", "uid": "mine"}])
    result = simulate(shared, pod("q", "c"), pod("p", "c", uid="mine"), code=1)
    assert [item.get("reason") for item in result["pods"]] == ["ClaimInUse", None]
    shared["status"]["reservedFor"] = others
    simulate(shared, pod("q", "c"))
    [kept] = stored(out, "claims.yaml")
    assert [holder["name"] for holder in kept["status"]["reservedFor"]] == [*(f"o{n}" for n in range(255)), "q"]


def test_of_containers_out_has_what_explain_reads(simulate: Callable[..., Any], out: Path) -> None:
    plain = pod("plain", "c")
    plain["spec"]["containers"] += [{"name": f"side-{number}", "image": "x", "env": []} for number in range(50)]
    asking = pod("asking", of_class="9")
    asking["spec"]["containers"].insert(0, {"name": "side", "image": "busybox"})
    asking["spec"]["containers"].append({"name": "last", "image": "busybox"})
    simulate(claim("c"), plain, asking, code=1)
    kept = {item["metadata"]["name"]: item["spec"]["containers"] for item in stored(out, "pods.yaml")}
    assert kept["plain"] == [{"name": "main"}]
    assert kept["asking"] == [{"name": "side"}, {"resources": {"requests": {"cpu": "1", OF_CLASS: "9"}}}]
