"""Shares in percent and in bytes fill one GPU, by the stock scheduler: percentages become lists over the node sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import EVENTS, PODS, RESOURCE_CLAIMS
from tests.cluster.conversion.converting_cluster import ConvertingCluster
from tests.e2e.converting import converting
from tests.e2e.test_explain import explained
from tests.support.cluster.ledger import oversold
from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

__all__ = ["converting"]

QUARTER: Final = {"core": "10", "memoryRatio": "25"}
EIGHT: Final = {"core": "10", "memory": "8Gi"}


@pytest.fixture
def place(rootport: RunningRootport, converting: ConvertingCluster) -> Iterator[str]:
    """The namespace, of which nothing is left afterwards."""
    namespace = converting.namespace
    # The controller reads the sizes once it has started, and then once a minute.
    wait_until("percentages are rewritten", lambda: is_list(rootport, namespace), timeout_s=90)
    yield namespace
    for kind in ("pods", "resourceclaims", "resourceclaimtemplates"):
        rootport.cluster.kubectl("delete", kind, "--all", f"--namespace={namespace}", "--timeout=90s")
    rootport.wait_until_clean()


def is_list(rootport: RunningRootport, namespace: str) -> bool:
    probe = gpu_claim("probe", rootport.host.gpus[0], type_="gpu-ratio", memoryRatio="25")
    answer = rootport.cluster.kubectl(
        "create", "--dry-run=server", f"--namespace={namespace}", "--filename=-", "--output=json", input=manifest(probe)
    )
    return "firstAvailable" in answer


def create(rootport: RunningRootport, namespace: str, *objects: dict[str, Any], verb: str = "create") -> None:
    rootport.cluster.kubectl(verb, f"--namespace={namespace}", "--filename=-", input=manifest(*objects))


def share(name: str, gpu: str | None, **capacity: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod, and its claim for a part of a certain GPU, or of any."""
    type_ = "gpu-ratio" if "memoryRatio" in capacity else "gpu"
    made = gpu_claim(name, gpu or "0000:13:00.0", type_=type_, **capacity)
    if gpu is None:
        del made["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    return made, pod(name, claim=name)


def phases(rootport: RunningRootport, namespace: str) -> dict[str, str]:
    found = {}
    for item in rootport.cluster.list(PODS, namespace=namespace):
        conditions = {condition["type"]: condition for condition in item["status"].get("conditions", [])}
        is_pending = conditions.get("PodScheduled", {}).get("reason") == "Unschedulable"
        found[item["metadata"]["name"]] = "Unschedulable" if is_pending else item["status"]["phase"]
    return found


def settle(rootport: RunningRootport, namespace: str, expected: dict[str, str]) -> None:
    wait_until(f"the pods are {expected}", lambda: phases(rootport, namespace) == expected, timeout_s=60)
    assert oversold(rootport.cluster.list(RESOURCE_CLAIMS, namespace=namespace), rootport.slices()) == []


def results(rootport: RunningRootport, namespace: str) -> list[dict[str, Any]]:
    return [
        result
        for item in rootport.cluster.list(RESOURCE_CLAIMS, namespace=namespace)
        for result in item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


def devices(rootport: RunningRootport, namespace: str) -> set[str]:
    """The devices that claims have."""
    return {result["device"] for result in results(rootport, namespace)}


def test_a_quarter_and_bytes_fit_on_one_gpu_and_its_device_shows_both(rootport: RunningRootport, place: str) -> None:
    gpu = rootport.host.gpus[0]
    create(rootport, place, *share("quarter", gpu, **QUARTER), *share("bytes", gpu, **EIGHT))
    settle(rootport, place, dict.fromkeys(("quarter", "bytes"), "Running"))
    name = f"gpu-{gpu.replace(':', '-').replace('.', '-')}"
    assert devices(rootport, place) == {name}
    assert {result["request"] for result in results(rootport, place)} == {"gpu", "gpu/ratio-of-81559mi"}

    def holders() -> str:
        found = rootport.cluster.get("devices.rootport.dev")["items"]
        return next(json.dumps(item["status"]) for item in found if name in item["metadata"]["name"])

    wait_until("the Device shows both", lambda: '"quarter"' in holders() and '"bytes"' in holders(), timeout_s=30)
    assert "20389Mi" in holders()


def test_four_quarters_fill_a_gpu_and_a_fifth_is_told_why_it_waits(rootport: RunningRootport, place: str) -> None:
    gpu = rootport.host.gpus[1]
    names = [f"quarter-{number}" for number in range(4)]
    for name in names:
        create(rootport, place, *share(name, gpu, **QUARTER))
    settle(rootport, place, dict.fromkeys(names, "Running"))
    create(rootport, place, *share("fifth", gpu, **QUARTER))
    settle(rootport, place, dict.fromkeys(names, "Running") | {"fifth": "Unschedulable"})

    def event() -> str:
        found = rootport.cluster.list(EVENTS, namespace=place, field_selector="involvedObject.name=fifth")
        ours = [item["message"] for item in found if item.get("reportingComponent", "").startswith("rootport.dev/")]
        return "\n".join(ours)

    wait_until("an Event says why", lambda: bool(event()), timeout_s=45)
    _, told = explained(rootport, "pod", f"{place}/fifth")
    for text in (event(), told):
        assert "memory" in text
        assert "ratio-of-81559mi" in text
    assert len(told.splitlines()) < 60, told


def test_percent_and_byte_pods_are_packed_on_one_gpu(rootport: RunningRootport, place: str) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "fifth"},
        "spec": {"spec": share("any", None, core="10", memoryRatio="20")[0]["spec"]},
    }
    made = pod("of-template", template="fifth")
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices", "request": "gpu"}]
    create(rootport, place, template, made)
    for number in range(2):
        create(rootport, place, *share(f"percent-{number}", None, **QUARTER))
        create(rootport, place, *share(f"bytes-{number}", None, **EIGHT))
    names = ["of-template", "percent-0", "percent-1", "bytes-0", "bytes-1"]
    settle(rootport, place, dict.fromkeys(names, "Running"))
    assert len(devices(rootport, place)) == 1
    # 20 + 25 + 25 percent and 16Gi of 79.6: a tenth of it fits still, and no more.
    assert len(results(rootport, place)) == 5


def test_without_the_lists_the_same_pods_take_two_gpus(rootport: RunningRootport) -> None:
    create(rootport, "default", *share("percent", None, **QUARTER), *share("bytes", None, **EIGHT))
    settle(rootport, "default", dict.fromkeys(("percent", "bytes"), "Running"))
    assert len(devices(rootport, "default")) == 2


def test_a_claim_can_be_applied_again(rootport: RunningRootport, place: str) -> None:
    claim, _ = share("again", None, **QUARTER)
    for _ in range(2):
        create(rootport, place, claim, verb="apply")
    (stored,) = rootport.cluster.list(RESOURCE_CLAIMS, namespace=place)
    assert len(stored["spec"]["devices"]["requests"][0]["firstAvailable"]) == 2
    other, _ = share("again", None, core="10", memoryRatio="50")
    refused = rootport.cluster.kubectl(
        "apply", f"--namespace={place}", "--filename=-", input=manifest(other), check=False
    )
    assert "immutable" in refused
