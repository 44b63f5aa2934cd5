"""The calls against a real API server: objects, locks, apply, preconditions, pages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from driver.adapters.kubernetes.resources import DEVICES, NODES, JsonObject, Resource
from tests.support.cluster.control_plane import ControlPlane

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
NOT_INSTALLED: Final = Resource("not-installed.example", "v1", "things", "Thing")


def config_map(name: str, namespace: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def test_an_object_is_created_read_replaced_patched_and_deleted(api: KubernetesApi, namespace: str) -> None:
    created = api.create(CONFIG_MAPS, config_map("a", namespace, x="1"))
    assert created["metadata"]["uid"]
    assert api.get(CONFIG_MAPS, "a", namespace=namespace) == created
    replaced = api.replace(CONFIG_MAPS, created | {"data": {"y": "2"}})
    assert replaced["data"] == {"y": "2"}
    patched = api.merge_patch(CONFIG_MAPS, "a", {"data": {"y": None, "z": "3"}}, namespace=namespace)
    assert patched["data"] == {"z": "3"}
    api.delete(CONFIG_MAPS, "a", namespace=namespace)
    with pytest.raises(NotFoundError, match=f"cannot get configmaps {namespace}/a: configmaps"):
        api.get(CONFIG_MAPS, "a", namespace=namespace)


def test_a_name_is_taken_once(api: KubernetesApi, namespace: str) -> None:
    api.create(CONFIG_MAPS, config_map("a", namespace))
    with pytest.raises(AlreadyExistsError, match=f"cannot create configmaps {namespace}/a"):
        api.create(CONFIG_MAPS, config_map("a", namespace))


def test_an_old_version_does_not_overwrite_a_new_one(api: KubernetesApi, namespace: str) -> None:
    old = api.create(CONFIG_MAPS, config_map("a", namespace))
    api.replace(CONFIG_MAPS, old | {"data": {"x": "1"}})
    with pytest.raises(ConflictError, match="read it again"):
        api.replace(CONFIG_MAPS, old | {"data": {"x": "2"}})
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    with pytest.raises(ConflictError):
        api.merge_patch(CONFIG_MAPS, "a", version | {"data": {"x": "3"}}, namespace=namespace)
    assert api.get(CONFIG_MAPS, "a", namespace=namespace)["data"] == {"x": "1"}


def test_apply_creates_then_owns_exactly_its_fields(api: KubernetesApi, namespace: str) -> None:
    applied = api.apply(CONFIG_MAPS, config_map("a", namespace, x="1", y="1"), field_manager="me")
    assert applied["data"] == {"x": "1", "y": "1"}
    api.merge_patch(CONFIG_MAPS, "a", {"data": {"z": "theirs"}}, namespace=namespace)
    applied = api.apply(CONFIG_MAPS, config_map("a", namespace, x="2"), field_manager="me")
    assert applied["data"] == {"x": "2", "z": "theirs"}


def test_apply_takes_a_field_over_only_by_force(api: KubernetesApi, namespace: str) -> None:
    api.apply(CONFIG_MAPS, config_map("a", namespace, x="1"), field_manager="me")
    with pytest.raises(ConflictError) as caught:
        api.apply(CONFIG_MAPS, config_map("a", namespace, x="2"), field_manager="other", force=False)
    assert caught.value.causes == ('.data.x: conflict with "me"',)
    assert api.apply(CONFIG_MAPS, config_map("a", namespace, x="2"), field_manager="other")["data"] == {"x": "2"}


def test_the_status_is_written_by_its_subresource(api: KubernetesApi) -> None:
    api.create(NODES, {"metadata": {"name": "kubernetes-api-status"}})
    condition = {"type": "Ready", "status": "False", "reason": "r", "message": "m"}
    body = {"metadata": {"name": "kubernetes-api-status"}, "status": {"conditions": [condition]}}
    applied = api.apply(NODES, body, field_manager="me", subresource="status")
    assert applied["status"]["conditions"][0]["reason"] == "r"
    patched = api.merge_patch(NODES, "kubernetes-api-status", {"status": {"phase": "Pending"}}, subresource="status")
    assert patched["status"]["phase"] == "Pending"
    api.delete(NODES, "kubernetes-api-status")


def test_only_the_object_that_is_meant_is_deleted(api: KubernetesApi, namespace: str) -> None:
    first = api.create(CONFIG_MAPS, config_map("a", namespace))
    second = api.replace(CONFIG_MAPS, first | {"data": {"x": "1"}})
    with pytest.raises(ConflictError, match="UID"):
        api.delete(CONFIG_MAPS, "a", namespace=namespace, uid="00000000-0000-0000-0000-000000000000")
    version = first["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError, match="ResourceVersion"):
        api.delete(CONFIG_MAPS, "a", namespace=namespace, resource_version=version)
    metadata = second["metadata"]
    api.delete(CONFIG_MAPS, "a", namespace=namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    with pytest.raises(NotFoundError):
        api.delete(CONFIG_MAPS, "a", namespace=namespace)


def test_an_invalid_object_is_refused_with_its_fields(api: KubernetesApi, namespace: str) -> None:
    with pytest.raises(InvalidError) as caught:
        api.create(CONFIG_MAPS, config_map("a", namespace) | {"data": {"not a key": "", "nor/this": ""}})
    assert caught.value.status == 422
    assert sorted(cause.split(": ")[0] for cause in caught.value.causes) == ["data[nor/this]", "data[not a key]"]


def test_a_kind_that_is_not_installed_is_told_as_such(api: KubernetesApi) -> None:
    with pytest.raises(NotFoundError, match=r"does not serve things\.not-installed\.example in v1"):
        api.list(NOT_INSTALLED)


def test_what_rbac_forbids_is_told_with_the_rule_to_add(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "nobody", f"--namespace={namespace}")
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "nobody")
    with KubernetesApi.connect(kubeconfig=kubeconfig) as api, pytest.raises(ForbiddenError) as caught:
        api.get(DEVICES, "gpu-0")
    assert f"system:serviceaccount:{namespace}:nobody" in caught.value.message
    assert "allow the verb 'get' on 'devices' in API group 'rootport.dev'" in str(caught.value)


def test_more_objects_than_a_page_are_listed_once_each_by_many_threads(api: KubernetesApi, namespace: str) -> None:
    names = [f"m-{number:04}" for number in range(1203)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: api.create(CONFIG_MAPS, config_map(name, namespace, x="1")), names))
    listing = api.list(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name!=kube-root-ca.crt")
    assert [item["metadata"]["name"] for item in listing.items] == names
    assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {("v1", "ConfigMap")}
    assert int(listing.resource_version) >= max(int(item["metadata"]["resourceVersion"]) for item in listing.items)

    slim = api.list(CONFIG_MAPS, namespace=namespace, metadata_only=True)
    assert {item["kind"] for item in slim.items} == {"PartialObjectMetadata"}
    assert not any("data" in item for item in slim.items)
    kept = api.list(CONFIG_MAPS, namespace=namespace, transform=lambda item: {"metadata": {"name": item["kind"]}})
    assert kept.items[-1] == {"metadata": {"name": "ConfigMap"}}


def test_selectors_select(api: KubernetesApi, namespace: str) -> None:
    for name, colour in (("a", "red"), ("b", "green"), ("c", "red")):
        body = config_map(name, namespace)
        body["metadata"]["labels"] = {"colour": colour}
        api.create(CONFIG_MAPS, body)
    found = api.list(CONFIG_MAPS, label_selector="colour in (red)", field_selector=f"metadata.namespace={namespace}")
    assert [item["metadata"]["name"] for item in found.items] == ["a", "c"]


def test_a_watch_from_a_forgotten_version_expires(
    api: KubernetesApi, control_plane: ControlPlane, namespace: str
) -> None:
    old = api.create(CONFIG_MAPS, config_map("a", namespace))["metadata"]["resourceVersion"]
    api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=namespace)
    # A new API server remembers nothing of its own, and etcd nothing before the compaction.
    control_plane.stop_api_server()
    control_plane.compact()
    control_plane.start_api_server()
    with pytest.raises(ExpiredError):
        list(api.watch(CONFIG_MAPS, resource_version=old, duration_s=2))
