"""The examples for Kueue, with Kueue itself: quota in bytes of GPU memory for whole GPUs, shares and MIG partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import yaml

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.processes import wait_until
from tests.support.paths import REPO

pytestmark = [pytest.mark.needs_go, pytest.mark.since_kubernetes(36, "before, there are no shares by default")]

EXAMPLES: Final = REPO / "examples" / "kueue"
GIB: Final = 1 << 30
H100: Final = 81559 << 20
WITHIN_S: Final = 120
UNITS: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": GIB}


def documents() -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all((EXAMPLES / "jobs.yaml").read_text())
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


def workload(plane: ControlPlane, job: str, kind: str = "Job") -> dict[str, Any]:
    items = json.loads(plane.kubectl("get", "workloads.kueue.x-k8s.io", "--output=json"))["items"]
    for item in items:
        owners = item["metadata"].get("ownerReferences", ())
        if any((owner["kind"], owner["name"]) == (kind, job) for owner in owners):
            return dict(item)
    return {}


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = found.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


def is_admitted(plane: ControlPlane, job: str, kind: str = "Job") -> bool:
    return condition(workload(plane, job, kind), "Admitted").get("status") == "True"


def usage(plane: ControlPlane, job: str, kind: str = "Job") -> dict[str, int]:
    (assigned,) = workload(plane, job, kind)["status"]["admission"]["podSetAssignments"]
    return {name: in_bytes(amount) for name, amount in assigned["resourceUsage"].items()}


def in_bytes(amount: str) -> int:
    return int(amount[:-2]) * UNITS[amount[-2:]] if amount[-2:] in UNITS else int(amount)


def renamed(job: dict[str, Any], name: str, template: str) -> dict[str, Any]:
    spec = json.loads(json.dumps(job["spec"]))
    spec["template"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = template
    return {**job, "metadata": {**job["metadata"], "name": name}, "spec": spec}


@pytest.fixture
def apply(kueue: ControlPlane) -> Iterator[Callable[..., None]]:
    """Creates objects that are gone, with what they held, when the test ends."""
    made: list[str] = []

    def apply(*objects: dict[str, Any]) -> None:
        made.append(yaml.safe_dump_all(objects))
        kueue.kubectl("apply", "--filename=-", input=made[-1])

    yield apply
    for text in made:
        kueue.kubectl("delete", "--filename=-", "--ignore-not-found", "--wait", input=text)
    kueue.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    wait_until("no workload is left", lambda: not workloads(kueue), timeout_s=WITHIN_S)


def workloads(plane: ControlPlane) -> list[Any]:
    return list(json.loads(plane.kubectl("get", "workloads.kueue.x-k8s.io", "--output=json"))["items"])


def test_whole_gpus_and_shares_count_against_one_quota_and_the_next_job_waits(
    kueue: ControlPlane, apply: Callable[..., None]
) -> None:
    example = documents()
    apply(*example.values())

    wait_until(
        "both Jobs are admitted",
        lambda: is_admitted(kueue, "train") and is_admitted(kueue, "notebooks"),
        timeout_s=WITHIN_S,
    )
    assert usage(kueue, "train") == {"cpu": 1, "rootport.dev/gpu-memory": 3 * H100, "rootport.dev/nics": 1}
    assert usage(kueue, "notebooks") == {"cpu": 2, "rootport.dev/gpu-memory": 2 * 39 * GIB}
    wait_until("kube-scheduler has bound the pods", lambda: bound(kueue) == 3, timeout_s=WITHIN_S)

    apply(renamed(example["Job", "notebooks"], "third", "half-of-80-gb"))
    wait_until(
        "the third Job waits for quota",
        lambda: "insufficient" in condition(workload(kueue, "third"), "QuotaReserved").get("message", ""),
        timeout_s=WITHIN_S,
    )
    assert "rootport.dev/gpu-memory" in condition(workload(kueue, "third"), "QuotaReserved")["message"]
    assert kueue.kubectl("get", "job", "third", "--output=jsonpath={.spec.suspend}") == "true"

    kueue.kubectl("delete", "job", "notebooks", "--wait")
    wait_until("the third Job has the quota", lambda: is_admitted(kueue, "third"), timeout_s=WITHIN_S)


def bound(plane: ControlPlane) -> int:
    pods = json.loads(plane.kubectl("get", "pods", "--output=json"))["items"]
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def test_a_job_set_is_queued_as_a_whole(kueue: ControlPlane, apply: Callable[..., None]) -> None:
    """JobSet's controller does not run: Kueue ends the suspension, and what the pods are made by is not tested."""
    template, job_set = yaml.safe_load_all((REPO / "examples" / "jobset.yaml").read_text())
    job_set["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    apply(template, job_set)

    wait_until("the JobSet is admitted", lambda: is_admitted(kueue, "training", "JobSet"), timeout_s=WITHIN_S)
    assigned = workload(kueue, "training", "JobSet")["status"]["admission"]["podSetAssignments"]
    used = {each["name"]: each.get("resourceUsage", {}) for each in assigned}
    assert {name: in_bytes(amount) for name, amount in used["workers"].items()} == {
        "rootport.dev/gpu-memory": 2 * H100,
        "rootport.dev/nics": 2,
    }
    assert "rootport.dev/gpu-memory" not in used["coordinator"]


def test_a_mig_partition_counts_with_its_memory(kueue: ControlPlane, apply: Callable[..., None]) -> None:
    profile = 'device.attributes["rootport.dev"].profile == "3g.40gb"'
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "mig-3g"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
            "deviceClassName": "mig.rootport.dev", "selectors": [{"cel": {"expression": profile}}],
        }}]}}},
    }  # fmt: skip
    job = renamed(documents()["Job", "notebooks"], "mig", "mig-3g")
    apply(template, job | {"spec": job["spec"] | {"parallelism": 1, "completions": 1}})

    wait_until("the Job is admitted", lambda: is_admitted(kueue, "mig"), timeout_s=WITHIN_S)
    charged = usage(kueue, "mig")["rootport.dev/gpu-memory"]
    published = json.loads(kueue.kubectl("get", "resourceslices", "--output=json"))["items"]
    of_profile = {
        in_bytes(device["capacity"]["memory"]["value"])
        for item in published
        for device in item["spec"].get("devices", ())
        if device["attributes"].get("profile") == {"string": "3g.40gb"}
    }
    assert {charged} == of_profile
    assert 0 < charged < 40 * GIB


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"firstAvailable": [{"name": "a", "deviceClassName": "gpu.rootport.dev"}]}, "FirstAvailable"),
        ({"exactly": {"deviceClassName": "gpu.rootport.dev", "allocationMode": "All"}}, "AllocationMode 'All'"),
        ({"exactly": {"deviceClassName": "fpga.rootport.dev"}}, "fpga.rootport.dev"),
    ],
    ids=["alternatives", "all", "class without a quota"],
)
def test_what_kueue_cannot_count_is_never_admitted(
    kueue: ControlPlane, apply: Callable[..., None], asked: dict[str, Any], why: str
) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "not-counted"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", **asked}]}}},
    }
    apply(template, renamed(documents()["Job", "train"], "not-counted", "not-counted"))

    wait_until(
        "Kueue says why",
        lambda: why in condition(workload(kueue, "not-counted"), "QuotaReserved").get("message", ""),
        timeout_s=WITHIN_S,
    )
    assert condition(workload(kueue, "not-counted"), "QuotaReserved")["status"] == "False"
