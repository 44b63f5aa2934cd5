"""Objects with pods of every kind, and what is rewritten in them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from driver.convert import Outcome, Settings, convert
from tests.unit.driver.convert.conversions import converted, fields, pod, requests

SPEC: dict[str, Any] = pod({"nvidia.com/gpu": "1"})["spec"]
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
KINDS = [
    ("Pod", {"spec": SPEC}),
    ("ReplicaSet", {"spec": {"template": TEMPLATE}}),
    ("Deployment", {"spec": {"replicas": 2, "template": TEMPLATE}}),
    ("StatefulSet", {"spec": {"template": TEMPLATE}}),
    ("DaemonSet", {"spec": {"template": TEMPLATE}}),
    ("Job", {"spec": {"template": TEMPLATE}}),
    ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}}),
    ("PodTemplate", {"template": TEMPLATE}),
    ("JobSet", {"spec": {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}] * 2}}),
    ("LeaderWorkerSet", {"spec": {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}}}),
    ("PyTorchJob", {"spec": {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}}}),
    ("RayCluster", {"spec": {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"template": TEMPLATE}]}}),
]  # fmt: skip


def pods_of(value: Any) -> list[Any]:
    """Every pod's spec in an object."""
    if isinstance(value, list):
        return [found for item in value for found in pods_of(item)]
    if not isinstance(value, dict):
        return []
    return [value] if "containers" in value else [found for item in value.values() for found in pods_of(item)]


@pytest.mark.parametrize(("kind", "body"), KINDS, ids=[kind for kind, _ in KINDS])
def test_the_pods_of_every_kind_are_converted(kind: str, body: dict[str, Any]) -> None:
    data = {"kind": kind, "metadata": {"name": "x", "namespace": "ml"}, **copy.deepcopy(body)}
    conversion = converted(data)
    assert conversion.outcome is Outcome.CONVERTED
    (template,) = conversion.templates
    assert template["metadata"]["namespace"] == "ml"
    specs = pods_of(conversion.object)
    assert len(specs) == len(pods_of(data)) == len(conversion.findings)
    for spec in specs:
        assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}]
        (container,) = spec["containers"]
        assert container == {
            "name": "main",
            "image": "busybox",
            "resources": {"limits": {"cpu": "40m"}, "requests": {"cpu": "40m"}, "claims": [{"name": "gpu"}]},
        }


def test_a_list_is_converted_object_by_object() -> None:
    first, second = pod({"nvidia.com/gpu": "1"}), pod({"nvidia.com/gpu": "1"})
    second["metadata"]["namespace"] = "other"
    conversion = converted({"kind": "List", "items": [first, {"kind": "Service"}, second, "text", None]})
    assert [item["metadata"]["namespace"] for item in conversion.templates] == ["ml", "other"]
    assert conversion.findings[1].field.startswith("items[2].spec.containers[0]")
    assert conversion.object["items"][1:2] == [{"kind": "Service"}]


def test_one_pod_that_is_refused_leaves_the_object_as_it_was() -> None:
    bad = pod({"koordinator.sh/gpu": "150"})
    conversion = converted({"kind": "PodList", "items": [pod({"nvidia.com/gpu": "1"}), bad]})
    assert conversion.outcome is Outcome.REFUSED
    assert len(conversion.findings) == 2


@pytest.mark.parametrize("path", ["spec.fleets[*].podTemplate", "spec.fleets[*].podTemplate.spec"])
def test_pods_of_a_kind_can_be_named_by_their_path(path: str) -> None:
    fleet = {"podTemplate": {"metadata": {"annotations": {}}, "spec": SPEC}}
    other = {"containers": SPEC["containers"]}
    data = {"kind": "Fleet", "spec": {"fleets": [fleet, {"podTemplate": None}, fleet, 7], "other": other}}
    conversion = converted(data, Settings(pod_paths={"Fleet": (path, "spec.none[*]", "a..b", "")}))
    assert [finding.field.split(".podTemplate")[0] for finding in conversion.findings] == [
        "spec.fleets[0]",
        "spec.fleets[2]",
    ]
    assert conversion.object["spec"]["other"] is other


def test_the_pods_own_claims_stay_and_names_do_not_clash() -> None:
    data = pod({"nvidia.com/gpu": "1"}, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    data["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    spec = converted(data).object["spec"]
    assert [claim["name"] for claim in spec["resourceClaims"]] == ["gpu", "gpu-2"]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu"}, {"name": "gpu-2"}]


def test_each_container_has_a_claim_of_its_own_from_one_template() -> None:
    data = pod({"nvidia.com/gpu": "1"})
    data["spec"]["containers"].append({**data["spec"]["containers"][0], "name": "second"})
    data["spec"]["containers"].append({"name": "third", "resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}})
    conversion = converted(data)
    names = [template["metadata"]["name"] for template in conversion.templates]
    pod_claims = conversion.object["spec"]["resourceClaims"]
    made = [(claim["name"], names.index(claim["resourceClaimTemplateName"])) for claim in pod_claims]
    assert made == [("gpu", 0), ("gpu-2", 0), ("mig", 1)]


def init(resources: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"name": "init", "resources": {"limits": resources}, **more}]


@pytest.mark.parametrize(
    ("asked", "main"),
    [
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}),
        ({"koordinator.sh/gpu": "50"}, {"koordinator.sh/gpu": "50"}),
        ({"koordinator.sh/gpu": "25"}, {"koordinator.sh/gpu": "50"}),
        ({"koordinator.sh/gpu": "25"}, {"koordinator.sh/gpu": "100"}),
        ({"koordinator.sh/rdma": "100"}, {"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"}),
    ],
)
def test_an_init_container_uses_the_claim_of_a_container_that_asks_for_as_much(
    asked: dict[str, str], main: dict[str, str]
) -> None:
    conversion = converted(pod(main, initContainers=init(asked)))
    spec = conversion.object["spec"]
    assert len(spec["resourceClaims"]) == 1
    assert spec["initContainers"][0]["resources"] == {"claims": [{"name": "gpu"}]}


@pytest.mark.parametrize(
    ("asked", "main"),
    [
        ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}),
        ({"nvidia.com/gpu": "1"}, {}),
        ({"koordinator.sh/gpu": "100"}, {"koordinator.sh/gpu": "50"}),
        ({"koordinator.sh/gpu-memory": "1Gi"}, {"koordinator.sh/gpu": "50"}),
        ({"koordinator.sh/fpga": "100"}, {"koordinator.sh/gpu": "100"}),
    ],
)
def test_an_init_container_that_asks_for_more_has_a_claim_of_its_own_with_a_note(
    asked: dict[str, str], main: dict[str, str]
) -> None:
    conversion = converted(pod(main, initContainers=init(asked)))
    spec = conversion.object["spec"]
    assert len(spec["resourceClaims"]) == 1 + bool(main)
    assert spec["initContainers"][0]["resources"]["claims"] == [{"name": spec["resourceClaims"][-1]["name"]}]
    assert any("as long as the pod lives" in text for text in fields(conversion, Outcome.NOTED).values())


def test_two_init_containers_alone_share_the_claim_of_the_first() -> None:
    conversion = converted(pod({}, initContainers=init({"nvidia.com/gpu": 1}) * 2))
    assert len(conversion.object["spec"]["resourceClaims"]) == 1


def test_a_sidecar_has_a_claim_of_its_own() -> None:
    sidecar = init({"nvidia.com/gpu": "1"}, restartPolicy="Always")
    conversion = converted(pod({"nvidia.com/gpu": "1"}, initContainers=sidecar))
    assert len(conversion.object["spec"]["resourceClaims"]) == 2
    assert conversion.outcome is Outcome.CONVERTED


def test_an_init_container_does_not_use_what_a_sidecar_may_be_using() -> None:
    sidecar = {"name": "sidecar", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    conversion = converted(
        pod({}, initContainers=[sidecar, *init({"nvidia.com/gpu": 1}), *init({"nvidia.com/gpu": 1})])
    )
    used = [item["resources"]["claims"] for item in conversion.object["spec"]["initContainers"]]
    assert used == [[{"name": "gpu"}], [{"name": "gpu-2"}], [{"name": "gpu-2"}]]


def test_ephemeral_containers_ask_for_nothing() -> None:
    """The API server refuses resources of theirs."""
    debugger = {"name": "debug", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    data = pod({}, ephemeralContainers=[debugger])
    assert converted(data).outcome is Outcome.UNCHANGED


def test_a_gpu_and_a_nic_of_a_container_are_near_to_each_other_where_that_can_be() -> None:
    conversion = converted(pod({"nvidia.com/gpu": "1", "koordinator.sh/rdma": "100"}))
    assert [item["name"] for item in requests(conversion)] == ["gpu-0", "nic-0"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "Pod"},
        {"kind": "Pod", "spec": None},
        {"kind": "Pod", "metadata": 3, "spec": {"containers": [{"resources": 1}]}},
        {"kind": "Pod", "metadata": {"annotations": []}, "spec": {"containers": [{"resources": {"limits": []}}]}},
        {"kind": ["List"], "items": []},
        {"kind": "ConfigMap", "data": {"containers": "x"}},
    ],
    ids=str,
)
def test_what_is_no_pod_stays_as_it_is(data: dict[str, Any]) -> None:
    assert converted(data).outcome is Outcome.UNCHANGED


def test_a_template_is_named_by_what_it_asks_for() -> None:
    names = [converted(pod({"nvidia.com/gpu": count})).templates[0]["metadata"]["name"] for count in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert convert(pod({"koordinator.sh/gpu": "100"})).templates[0]["metadata"] == {
        "name": "rootport-71acf0f92a51",
        "labels": {"rootport.dev/converted": "true"},
        "namespace": "ml",
    }


@pytest.mark.parametrize(
    ("scheduler", "words", "stays"),
    [
        ("koord-scheduler", "removed: kube-scheduler allocates claims", False),
        ("hami-scheduler", "removed: kube-scheduler allocates claims", False),
        ("my-scheduler", "stays: claims are allocated only if this scheduler does it", True),
        ("default-scheduler", "", True),
    ],
)
@pytest.mark.parametrize("resource", ["koordinator.sh/gpu", "amd.com/gpu"])
def test_a_scheduler_that_allocates_no_claims_goes_whoever_gave_the_devices(
    scheduler: str, words: str, stays: bool, resource: str
) -> None:
    conversion = converted(pod({resource: "100" if "koord" in resource else "1"}, schedulerName=scheduler))
    said = [finding.text for finding in conversion.findings if finding.field == "spec.schedulerName"]
    assert [text[: len(words)] for text in said] == ([words] if words else [])
    assert ("schedulerName" in conversion.object["spec"]) is stays


def test_a_pod_that_names_its_node_is_refused() -> None:
    # Nobody would allocate its claim: kube-scheduler does not see it.
    data = pod({"nvidia.com/gpu": "1"})
    data["spec"]["nodeName"] = "n1"
    conversion = convert(data)
    assert (conversion.outcome, conversion.object) == (Outcome.REFUSED, data)
    assert [(item.field, item.value) for item in conversion.findings if item.outcome is Outcome.REFUSED] == [
        ("spec.nodeName", "n1")
    ]
    assert convert(pod({"cpu": "1"})).outcome is Outcome.UNCHANGED
