"""`rootport convert --check`: how much of a folder, a dump or a cluster converts, and why the rest does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.foreign_workloads import ASKS, foreign_workloads, manifest_of, workload
from tests.support.scripted_api import Answer, ScriptedServer

Run = Callable[..., Any]

FORBIDDEN = {"kind": "Status", "message": "deviceclasses is forbidden", "reason": "Forbidden", "code": 403}
ASKING = 4 * (len(ASKS) - 1)
CONVERT = ASKING - 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four workloads of each entry of ASKS."""
    here = tmp_path / "deploy"
    here.mkdir()
    for number, item in enumerate(foreign_workloads(4 * len(ASKS))):
        (here / f"{number:02}.yaml").write_text(manifest_of(item))
    return here


def test_of_a_folder_the_sum_comes_first_then_the_reasons(
    rootport: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = rootport("convert", "--check", folder)
    assert ran.code == 1
    first, second = ran.out.splitlines()[:2]
    assert first.startswith(f"{CONVERT} of {ASKING} workloads that ask for devices convert")
    assert first.endswith("4 do not")
    assert second == "4 others ask for no device"
    refused = ran.out.partition("Not converted:")[2].partition("To read")[0]
    assert refused.count("train-") == 4
    assert "ResourceClaimTemplate" not in ran.out
    wide = [line for line in ran.out.splitlines() if len(line) > 80 and str(folder) not in line]
    assert wide == []


def test_as_data_it_has_all(rootport: Run, folder: Path) -> None:
    ran = rootport("convert", "--check", folder, "-o", "json")
    data = json.loads(ran.out)
    assert yaml.safe_load(rootport("convert", "--check", folder, "-o", "yaml").out) == data
    assert data["summary"] | {"withNotes": 0} == {
        "asking": ASKING,
        "converted": CONVERT,
        "withNotes": 0,
        "refused": 4,
        "withOtherResources": 0,
        "withoutDevices": 4,
        "withClaims": 0,
        "notLookedAt": 0,
    }
    assert data["dialects"]["Koordinator"]["objects"] == 8
    assert sum(item["outcome"] == "refused" for item in data["objects"]) == 4
    [field] = [item["findings"][0]["field"] for item in data["objects"] if item["name"] == "train-1"]
    assert field == "spec.template.spec.containers[0].resources.limits[kubernetes.io/gpu-core]"
    assert data["notRead"] == []


def test_resources_that_are_not_converted_are_named(rootport: Run, tmp_path: Path) -> None:
    def pod(name: str, **amounts: str) -> dict[str, Any]:
        asked = {key.replace("__", "/").replace("_", "."): amount for key, amount in amounts.items()}
        container = {"name": "main", "image": "busybox", "resources": {"limits": asked}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}

    path = tmp_path / "all.yaml"
    pods = (
        pod("a", tencent_com__vcuda="10"),
        pod("b", tencent_com__vcuda="10", acme_com__vf="1", cpu="1"),
        pod("idle", tencent_com__vcuda="0", cpu="1"),
        pod("class", deviceclass_resource_kubernetes_io__gpu_rootport_dev="1"),
    )
    path.write_text(manifest_of(*pods))
    out = " ".join(rootport("convert", "--check", path).out.split())
    told = "2 others ask for resources that are not converted: tencent.com/vcuda and acme.com/vf"
    assert f"{told} (name NICs in the resource map); 1 other asks for no device; 1 workload with claims already" in out
    assert told in " ".join(rootport("convert", path).err.split())
    data = json.loads(rootport("convert", "--check", path, "-o", "json").out)
    counts = {key: data["summary"][key] for key in ("asking", "withOtherResources", "withoutDevices", "withClaims")}
    assert counts == {"asking": 0, "withOtherResources": 2, "withoutDevices": 1, "withClaims": 1}
    assert data["otherResources"] == {"tencent.com/vcuda": 2, "acme.com/vf": 1}


def test_a_workload_whose_pods_a_path_names_is_no_claim(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    spec = workload(0, "Pod", "NVIDIA")["spec"]
    fleet = {"apiVersion": "x.example/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"p": spec}}
    path.write_text(manifest_of(fleet))
    ran = rootport("convert", "--check", "--path", "Fleet=spec.p", path)
    assert ran.out.startswith("1 of 1 workload that asks for devices converts"), ran.out


def test_what_converts_all_has_exit_code_0(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(manifest_of(workload(0, "Deployment", "NVIDIA"), workload(1, "Pod", "none")))
    assert rootport("convert", "--check", path).code == 0
    path.write_text(manifest_of(workload(1, "Pod", "none")))
    ran = rootport("convert", "--check", path)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "no workload asks for devices in another system's way")


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_assessed(rootport: Run, folder: Path) -> None:
    (folder / "broken.yaml").write_text("kind: Pod\nmetadata: [\n")
    (folder / "00.yaml").rename(folder / "0.yaml")
    for path in folder.glob("*.yaml"):
        if "150" in path.read_text():
            path.unlink()
    ran = rootport("convert", "--check", folder)
    assert ran.code == 1
    assert ran.out.startswith(f"{CONVERT} of {CONVERT} workloads that ask for devices convert")
    assert f"Not read:\n  {folder / 'broken.yaml'}:" in ran.out


def test_of_a_kustomization_the_manifests_are_assessed_as_they_are(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\npatches: [{path: patch.yaml}]\n")
    for name in ("a.yaml", "patch.yaml"):
        (tmp_path / name).write_text(manifest_of(workload(0, "Deployment", "NVIDIA")))
    ran = rootport("convert", "--check", tmp_path)
    assert ran.out.startswith("1 of 1 workload that asks for devices converts")
    assert "note: 1 patch file of kustomizations not looked at: `kustomize build DIR | rootport convert -`" in ran.err


def dumped() -> dict[str, Any]:
    """A Deployment with what controllers made of it, a pod of an operator, and one that has ended."""
    deployment = workload(0, "Deployment", "Koordinator, refused")
    deployment["metadata"]["uid"] = "d"
    items = [deployment]
    for kind, name, owner in (("ReplicaSet", "r", "d"), ("Pod", "p", "r"), ("Pod", "worker", "job")):
        item = workload(1, kind, "Koordinator, refused" if owner != "job" else "NVIDIA")
        references = [{"kind": "PyTorchJob", "name": "big", "uid": owner, "controller": True}]
        item["metadata"] |= {"uid": name, "name": name, "ownerReferences": references}
        items.insert(0, item)
    items.append(workload(2, "Pod", "Koordinator, refused") | {"status": {"phase": "Succeeded"}})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def test_of_a_dump_what_controllers_made_counts_for_them(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(dumped()))
    for how in (("--from", path), (path,)):
        ran = rootport("convert", "--check", "--path", "PyTorchJob=spec", *how, "-o", "json")
        assert "note: --path PyTorchJob: no object of that kind was read" in ran.err
        assert [f"{item['kind']} {item['name']}" for item in json.loads(ran.out)["objects"]] == [
            "PyTorchJob big",
            "Deployment train-0",
        ]


def test_a_cluster_is_read_and_nothing_in_it_is_changed(
    rootport: Run, scripted: ScriptedServer, answer: Callable[..., Answer]
) -> None:
    items = dumped()["items"]
    answers = [answer(FORBIDDEN, status=403)]
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "Controller", "Pod"):
        of_kind = [item for item in items if item["kind"] == kind]
        answers.append(answer({"metadata": {"resourceVersion": "1"}, "items": of_kind}))
    scripted.answers += answers
    paths = ("--path", "Deployment=spec.pods[*]", "--path", "Fleet=spec.p")
    ran = rootport("convert", "--check", "--kubeconfig", scripted.kubeconfig, *paths)
    assert "note: --path Fleet: no object of that kind was read" in ran.err
    assert "note: --path Deployment=spec.pods[*]: no pod there in 1 object of that kind" in ran.err
    scripted.requests.clear()
    scripted.answers += answers
    ran = rootport("convert", "--check", "--kubeconfig", scripted.kubeconfig)
    assert ran.code == 1, ran.err
    assert ran.out.startswith("1 of 2 workloads that ask for devices convert")
    assert "Deployment team-0/train-0" in ran.out
    assert "note: it is not known which extended resources DeviceClasses serve already" in ran.err
    assert {request.split()[0] for request in scripted.requests} == {"GET"}


def test_what_a_class_of_the_cluster_serves_needs_no_claim(
    rootport: Run, scripted: ScriptedServer, answer: Callable[..., Answer]
) -> None:
    served = {"metadata": {"name": "nvidia-gpu.rootport.dev"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    own = {"metadata": {"name": "gpu.rootport.dev"}, "spec": {}}
    scripted.answers.append(answer({"metadata": {"resourceVersion": "1"}, "items": [served, own]}))
    elsewhere = workload(1, "Deployment", "NVIDIA")
    elsewhere["spec"]["template"]["spec"]["schedulerName"] = "hami-scheduler"
    deployments = [workload(0, "Deployment", "NVIDIA"), elsewhere, workload(2, "Deployment", "HAMi")]
    for number in range(8):
        of_kind = deployments if number == 0 else []
        scripted.answers.append(answer({"metadata": {"resourceVersion": "1"}, "items": of_kind}))
    ran = rootport("convert", "--check", "--kubeconfig", scripted.kubeconfig)
    assert ran.out.startswith("2 of 2 workloads that ask for devices convert"), ran.out
    assert "1 workload with claims already" in ran.out
    assert "DeviceClasses" not in ran.err


def test_a_cluster_that_cannot_be_asked_is_no_answer(rootport: Run, tmp_path: Path) -> None:
    ran = rootport("convert", "--check", "--kubeconfig", tmp_path / "none")
    assert (ran.code, ran.out) == (2, "")
    wrong = rootport("convert", "--check", "-n", "No Such")
    assert (wrong.code, "no namespace has such a name" in wrong.err) == (2, True)


def test_a_folder_of_many_workloads_takes_little_time(rootport: Run, tmp_path: Path) -> None:
    # `make bench` measures 1,000 of them, in a process of its own, against 5 s.
    count = 200
    for number, item in enumerate(foreign_workloads(count)):
        (tmp_path / f"{number}.yaml").write_text(manifest_of(item))
    rootport("convert", "--check", tmp_path / "0.yaml")  # what is loaded once
    begin = time.process_time()
    ran = rootport("convert", "--check", tmp_path)
    assert time.process_time() - begin < 5 * count / 1000
    assert " workloads that ask for devices convert" in ran.out
