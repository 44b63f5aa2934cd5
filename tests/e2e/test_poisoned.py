"""All at once that tenants and nodes may write: another tenant's pods start, are explained and end as without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.adapters.kubernetes.resources import EVENTS, RESOURCE_CLAIMS
from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import Process, wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.poison.corpus import corpus
from tests.support.poison.sending import Sender

GPU = "0000:13:00.0"
POISONER = "poisoner"
GROWTH_MIB = 150.0
DEPTH = 3000


@pytest.fixture
def sender(rootport: RunningRootport) -> Sender:
    return Sender(rootport.cluster.control_plane.kubeconfig)


@pytest.fixture
def poisoned(rootport: RunningRootport, sender: Sender) -> Iterator[dict[str, float]]:
    """The cluster with the whole corpus in it; the memory of Rootport's processes before that, by name, in MiB."""
    control_plane = rootport.cluster.control_plane
    control_plane.kubectl("create", "namespace", POISONER)
    objects = corpus(POISONER)
    before = {name: process.rss_mib() for name, process in processes(rootport).items()}
    refused = sender.send(objects)
    unexpected = {str(one) for one in objects if not one.may_be_refused} & refused.keys()
    assert not unexpected, {what: refused[what] for what in unexpected}
    yield before
    sender.delete(objects)
    control_plane.kubectl("delete", "namespace", POISONER, "--wait=false")


def processes(rootport: RunningRootport) -> dict[str, Process]:
    assert rootport.controller is not None
    assert rootport.plugin is not None
    return {"controller": rootport.controller, "plugin": rootport.plugin}


def apply(rootport: RunningRootport, name: str, **capacity: str) -> None:
    made = manifest(gpu_claim(name, GPU, **capacity), pod(name, claim=name))
    rootport.cluster.kubectl("apply", "--filename=-", input=made)


def nest_managed_fields(sender: Sender, claim: str) -> str:
    """Write managedFields that are nested deeply into the claim; why they were refused, empty where they were not."""
    entry = b'"manager":"m","operation":"Update","apiVersion":"resource.k8s.io/v1","fieldsType":"FieldsV1"'
    deep = b'{%s,"fieldsV1":%s{}%s}' % (entry, b'{"f:a":' * DEPTH, b"}" * DEPTH)
    return sender.merge_patch(RESOURCE_CLAIMS, "default", claim, b'{"metadata":{"managedFields":[%s]}}' % deep)


def test_beside_poisoned_objects_of_every_kind_pods_start_are_explained_and_end_and_a_plugin_starts(
    rootport: RunningRootport, sender: Sender, poisoned: dict[str, float]
) -> None:
    apply(rootport, "first", core="60", memory="10Gi")
    rootport.cluster.wait_for_pod("first", "Running", timeout_s=90)
    assert nest_managed_fields(sender, "first") == ""

    apply(rootport, "second", core="50", memory="10Gi")

    def is_explained() -> bool:
        found = rootport.cluster.list(EVENTS, field_selector="involvedObject.name=second")
        return any(item["reason"] == "CapacityInUse" for item in found)

    wait_until("an Event says why the second pod waits", is_explained, timeout_s=90)

    # A plugin that starts reads the claims that it has prepared again.
    assert rootport.plugin is not None
    rootport.plugin.kill()
    rootport.start_plugin()
    rootport.cluster.kubectl("delete", "pod/first", "resourceclaim/first", "--timeout=90s")
    rootport.cluster.wait_for_pod("second", "Running", timeout_s=90)

    for name, process in processes(rootport).items():
        assert process.alive(), name
        assert process.rss_mib() < poisoned[name] + GROWTH_MIB, name
