"""`rootport simulate` of pods, and of what makes them: claims of their own, claims that they share, all on one node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.manifests.claims import read_manifest_text
from driver.adapters.manifests.workloads import read_workloads
from tests.support.topologies import nccl_file

H100 = nccl_file("azure-nd-h100-v5")
Run = Callable[..., Any]

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
JOB = {"apiVersion": "batch/v1", "kind": "Job"}
TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}


def devices(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.rootport.dev", "count": count}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def claim(name: str, count: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": devices(count)
    }  # fmt: skip


def template(name: str, count: int = 1) -> dict[str, Any]:
    return claim(name) | {"kind": "ResourceClaimTemplate", "spec": {"spec": devices(count)}}


def pod(name: str, *claims: dict[str, str], **more: Any) -> dict[str, Any]:
    spec = {"resourceClaims": list(claims), "containers": [{"name": "main", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} | more


def workload(kind: dict[str, str], name: str, *claims: dict[str, str], **spec: Any) -> dict[str, Any]:
    of_pods = {"spec": pod("", *claims)["spec"]}
    return kind | {"metadata": {"name": name}, "spec": {"template": of_pods} | spec}


@pytest.fixture
def simulate(rootport: Run, tmp_path: Path) -> Callable[..., Any]:
    """Runs it on nodes with 8 GPUs each; --out is ``tmp_path / "out"``."""

    def simulate(*objects: dict[str, Any], nodes: int = 1, code: int = 0) -> Any:
        path = tmp_path / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        arguments = ("--topology", H100, "--nodes", nodes, "--claims", path, "--out", tmp_path / "out")
        ran = rootport("simulate", *arguments, "-o", "json")
        assert ran.code == code, ran.err + ran.out
        return json.loads(ran.out) if code != 2 else ran.err

    return simulate


def names(result: Any) -> list[str]:
    return [claim["name"] for claim in result["claims"]]


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        (pod("w", TEMPLATE), ["w"]),
        (workload(DEPLOYMENT, "w", TEMPLATE, replicas=3), ["w-0", "w-1", "w-2"]),
        (workload(DEPLOYMENT, "w", TEMPLATE), ["w-0"]),
        (workload(DEPLOYMENT | {"kind": "StatefulSet"}, "w", TEMPLATE, replicas=2), ["w-0", "w-1"]),
        (workload(DEPLOYMENT | {"kind": "ReplicaSet"}, "w", TEMPLATE, replicas=2), ["w-0", "w-1"]),
        (workload(JOB, "w", TEMPLATE, completions=5, parallelism=2), ["w-0", "w-1"]),
        (workload(JOB, "w", TEMPLATE, completions=2, parallelism=5), ["w-0", "w-1"]),
        (workload(JOB, "w", TEMPLATE, completions=5), ["w-0"]),
        (workload(JOB, "w", TEMPLATE, parallelism=2, suspend=True), []),
        (workload(DEPLOYMENT, "w", TEMPLATE, replicas=0), []),
        (pod("w", TEMPLATE, status={"phase": "Succeeded"}), []),
    ],
)
def test_each_pod_that_runs_at_one_time_gets_a_claim_of_the_template(
    simulate: Callable[..., Any], workload: dict[str, Any], pods: list[str]
) -> None:
    result = simulate(template("t"), workload)
    assert [pod["name"] for pod in result["pods"]] == pods
    assert [pod["claims"] for pod in result["pods"]] == [[name] for name in names(result)]
    assert len({claim["devices"][0]["device"] for claim in result["claims"]}) == len(pods)


def job_set(replicas: int, parallelism: int, jobs: int = 1) -> dict[str, Any]:
    of_job = {"spec": {"parallelism": parallelism, "template": {"spec": {"resourceClaims": [TEMPLATE]}}}}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    replicated = [{"name": "workers", "replicas": replicas, "template": of_job} for _ in range(jobs)]
    return kind | {"metadata": {"name": "s"}, "spec": {"replicatedJobs": replicated}}


def test_a_job_set_has_the_pods_of_all_its_jobs(simulate: Callable[..., Any]) -> None:
    result = simulate(template("t"), job_set(2, 2))
    assert [pod["name"] for pod in result["pods"]] == [f"s-workers-{job}-{pod}" for job in (0, 1) for pod in (0, 1)]
    assert len(result["claims"]) == 4


def test_a_leader_worker_set_has_leaders_with_their_claims_and_workers_with_theirs(
    simulate: Callable[..., Any],
) -> None:
    groups = {
        "size": 3,
        "leaderTemplate": {"spec": {"resourceClaims": [TEMPLATE | {"resourceClaimTemplateName": "leader"}]}},
        "workerTemplate": {"spec": {"resourceClaims": [TEMPLATE]}},
    }
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "s"}}
    leaders = kind | {"spec": {"replicas": 2, "leaderWorkerTemplate": groups}}

    result = simulate(template("t"), template("leader"), leaders)

    assert [pod["name"] for pod in result["pods"]] == ["s-0", "s-1", "s-0-1", "s-0-2", "s-1-1", "s-1-2"]
    assert len(result["claims"]) == 6


def test_without_a_template_of_its_own_a_leader_is_like_a_worker(simulate: Callable[..., Any]) -> None:
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "s"}}
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"resourceClaims": [TEMPLATE]}}}}
    assert [pod["name"] for pod in simulate(template("t"), kind | {"spec": spec})["pods"]] == ["s-0", "s-0-1"]


@pytest.mark.parametrize(("replicas", "parallelism"), [(10**9, 0), (0, 10**9)])
def test_a_job_set_without_pods_costs_little_however_many_jobs_it_has(replicas: int, parallelism: int) -> None:
    documents = read_manifest_text(yaml.safe_dump(job_set(replicas, parallelism, jobs=3)), "x").documents
    workloads = [workload for _, workload in read_workloads(documents, {})]
    assert [workload.pods for workload in workloads] == [(), (), ()]


def test_a_claim_of_one_pod_alone_has_the_templates_name(simulate: Callable[..., Any]) -> None:
    assert names(simulate(template("t"), pod("p", TEMPLATE))) == ["t"]
    two = simulate(template("t"), pod("p", TEMPLATE), pod("q", TEMPLATE))
    assert names(two) == ["p-gpu", "q-gpu"]


def test_containers_are_told_the_name_that_the_pod_has_for_a_templates_claim(
    simulate: Callable[..., Any], tmp_path: Path
) -> None:
    [made] = simulate(template("t"), pod("p", TEMPLATE | {"name": "mine"}))["claims"]
    [stored] = yaml.safe_load_all((tmp_path / "out" / "claims.yaml").read_text())
    assert stored["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "mine"}
    assert "ROOTPORT_MINE__GPUS_PCI=" in (tmp_path / "out" / made["cdi"]).read_text()


def test_pods_that_name_a_claim_share_it(simulate: Callable[..., Any], tmp_path: Path) -> None:
    shared = {"name": "gpu", "resourceClaimName": "c"}
    result = simulate(claim("c"), workload(DEPLOYMENT, "w", shared, replicas=3), nodes=2)
    assert names(result) == ["c"]
    assert {pod["node"] for pod in result["pods"]} == {result["claims"][0]["node"]}
    [stored] = yaml.safe_load_all((tmp_path / "out/claims.yaml").read_text())
    assert [holder["name"] for holder in stored["status"]["reservedFor"]] == ["w-0", "w-1", "w-2"]


def test_more_pods_than_a_claim_can_be_reserved_for_have_no_node(simulate: Callable[..., Any]) -> None:
    shared = {"name": "gpu", "resourceClaimName": "c"}
    result = simulate(claim("c"), workload(DEPLOYMENT, "w", shared, replicas=257), code=1)
    assert [pod.get("reason") for pod in result["pods"]] == [None] * 256 + ["ClaimInUse"]


def test_all_claims_of_a_pod_are_on_one_node(simulate: Callable[..., Any]) -> None:
    """Each of them fits by itself, but no node has 10 GPUs."""
    two = (TEMPLATE, {"name": "more", "resourceClaimName": "c"})
    result = simulate(template("t", 5), claim("c", 5), pod("p", *two), nodes=2, code=1)
    assert [claim["node"] for claim in result["claims"]] == [None, None]
    assert {claim["reason"] for claim in result["claims"]} == {"RequestsCompete"}
    result = simulate(template("t", 5), claim("c", 3), pod("first", {"name": "x", "resourceClaimTemplateName": "u"}),
                      template("u", 2), pod("p", *two), nodes=2)  # fmt: skip
    assert len({claim["node"] for claim in result["claims"] if claim["name"] in ("t", "c")}) == 1


def test_a_pod_goes_where_its_allocated_claim_is(simulate: Callable[..., Any]) -> None:
    last = "azure-nd-h100-v5-3"
    held = {"request": "gpus", "driver": "rootport.dev", "pool": last, "device": "gpu-0001-00-00-0"}
    status = {"status": {"allocation": {"devices": {"results": [held]}}}}
    result = simulate(
        claim("c") | status, template("t"), pod("p", TEMPLATE, {"name": "c", "resourceClaimName": "c"}), nodes=3
    )
    assert {claim["node"] for claim in result["claims"]} == {last}


def test_what_a_pod_names_and_no_file_has_keeps_it_from_starting(simulate: Callable[..., Any]) -> None:
    result = simulate(claim("used"), pod("p", TEMPLATE), pod("q", {"name": "c", "resourceClaimName": "usde"}), code=1)
    assert [pod["reason"] for pod in result["pods"]] == ["ClaimTemplateMissing", "ClaimMissing"]
    assert "ResourceClaimTemplate default/t, which is not there" in result["pods"][0]["message"]
    assert names(result) == ["used"]


def test_a_template_that_no_pod_names_is_allocated_once(simulate: Callable[..., Any]) -> None:
    result = simulate(template("t"), claim("t"))
    assert sorted(names(result)) == ["t", "t-2"]
    assert result["pods"] == []


def test_pods_without_claims_are_not_used_and_may_be_anything(simulate: Callable[..., Any], rootport: Run) -> None:
    result = simulate(workload(DEPLOYMENT, "w", replicas=10**9), {"apiVersion": "v1", "kind": "Pod", "spec": {}})
    assert result["pods"] == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            workload(DEPLOYMENT, "w", TEMPLATE, replicas=10**9),
            "Deployment w: spec: with it pods name more than 10000 claims",
        ),
        (job_set(10**9, 1), "JobSet s: spec: with it pods name more than 10000 claims"),
        (job_set(5_001, 1, jobs=2), "JobSet s: spec: with it pods name more than 10000 claims"),
        (workload(DEPLOYMENT, "w", TEMPLATE, replicas=-1), "spec.replicas: expected a whole number of pods"),
        (workload(JOB, "w", TEMPLATE, parallelism="2"), "spec.parallelism: expected a whole number of pods"),
        (workload(JOB, "", TEMPLATE), "metadata.name: is required"),
        (pod("w\x1b[1m", TEMPLATE), "metadata.name: "),
        (pod("w", {"name": "G\x1b", "resourceClaimName": "c"}), "spec.resourceClaims[0].name: "),
        (pod("w", {"name": "g", "resourceClaimName": "../c"}), "spec.resourceClaims[0].resourceClaimName: "),
        (pod("w", {"name": "gpu"}), "spec.resourceClaims[0]: needs a resourceClaimName or a resourceClaimTemplateName"),
        (pod("w", TEMPLATE, TEMPLATE), "spec.resourceClaims: two of them have one name"),
        (pod("w", {"name": "gpu", "resourceClaimName": 3}), "Pod w: spec.resourceClaims: "),
        (pod("w", spec={"resourceClaims": {"a": 1}}), "Pod w: spec.resourceClaims: "),
        (pod("w", spec=["resourceClaims"]), "Pod w: spec: expected an object"),
        (pod("w", *({"name": f"g{i}", "resourceClaimName": "c"} for i in range(257))), "more than 256 claims"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(
    simulate: Callable[..., Any], wrong: dict[str, Any], says: str
) -> None:
    told = simulate(template("t"), wrong, code=2)
    assert "objects.yaml:" in told
    assert says in told


@pytest.mark.parametrize("claims", [[TEMPLATE], []], ids=["others", "none"])
def test_a_container_that_names_a_claim_which_the_pod_lacks_is_refused(
    simulate: Callable[..., Any], claims: list[dict[str, str]]
) -> None:
    wrong = pod("p", *claims)
    wrong["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    told = simulate(template("t"), wrong, code=2)
    assert (
        "spec.containers[0].resources.claims[0].name: the pod's resourceClaims have no 'gpus': the API server" in told
    )


def test_two_workloads_of_one_name_are_refused(simulate: Callable[..., Any]) -> None:
    assert "Pod default/p is already defined at" in simulate(pod("p", TEMPLATE), pod("p", TEMPLATE), code=2)


def test_pods_of_the_files_keep_their_names_whatever_stands_before_them(
    simulate: Callable[..., Any], rootport: Run, tmp_path: Path
) -> None:
    """Only what is assumed, or named by a controller, gives way: explain would call the wrong pod allocated."""
    misspelled = {"name": "gpu", "resourceClaimTemplateName": "tt"}
    result = simulate(template("p"), workload(DEPLOYMENT, "w", TEMPLATE), pod("p", misspelled), pod("w-0", TEMPLATE),
                      template("t"), code=1)  # fmt: skip
    assert {(pod["name"], pod.get("reason")) for pod in result["pods"]} == {
        ("p", "ClaimTemplateMissing"), ("w-0", None), ("w-0-2", None)
    }  # fmt: skip
    explained = rootport("explain", "pod", "p", "--from", tmp_path / "out")
    assert explained.code == 1
    assert "ClaimTemplateMissing" in explained.out


def test_a_claim_of_a_pod_keeps_its_name_where_an_unused_template_has_it(simulate: Callable[..., Any]) -> None:
    result = simulate(template("p-gpu"), template("t"), pod("p", TEMPLATE), pod("q", TEMPLATE))
    assert names(result) == ["p-gpu-2", "p-gpu", "q-gpu"]


def test_room_that_a_pod_which_fits_nowhere_cannot_use_is_fragmented(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all([claim("c", 16), pod("p", {"name": "c", "resourceClaimName": "c"})]))
    ran = rootport("simulate", "--topology", H100, "--claims", path, "--policy", "pack")
    assert "pods such as these could not use 8.0 on average (fragmentation: 100 %)" in ran.out
