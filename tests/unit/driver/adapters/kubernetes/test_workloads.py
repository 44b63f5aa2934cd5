"""The workloads of a cluster: every kind, page by page, owners before what they own, and the right that is lacking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError
from driver.adapters.kubernetes.workloads import each_workload
from tests.support.scripted_api import Answer, ScriptedServer


def page(*names: str, following: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name}} for name in names]
    return {"metadata": {"resourceVersion": "1", "continue": following}, "items": items}


def test_every_kind_is_listed_in_pages(
    scripted: ScriptedServer, scripted_api: KubernetesApi, answer: Callable[..., Answer]
) -> None:
    scripted.answers += [answer(page("a", following="x")), answer(page("b"))]
    scripted.answers += [answer(page()) for _ in range(6)]
    scripted.answers.append(answer(page("p")))
    seen: list[tuple[str, str]] = []
    each_workload(scripted_api, None, lambda item: seen.append((item["kind"], item["metadata"]["name"])))
    assert seen == [("Deployment", "a"), ("Deployment", "b"), ("Pod", "p")]
    plurals = [request.split()[1].partition("?")[0].rpartition("/")[2] for request in scripted.requests]
    assert list(dict.fromkeys(plurals)) == [
        "deployments",
        "statefulsets",
        "daemonsets",
        "cronjobs",
        "jobs",
        "replicasets",
        "replicationcontrollers",
        "pods",
    ]
    assert all("limit=" in request for request in scripted.requests)


def test_of_one_namespace(scripted: ScriptedServer, scripted_api: KubernetesApi, answer: Callable[..., Answer]) -> None:
    scripted.answers += [answer(page()) for _ in range(8)]
    each_workload(scripted_api, "ml", lambda _: None)
    assert all("/namespaces/ml/" in request for request in scripted.requests)


def test_who_may_not_list_them_is_told_which_role_may(
    scripted: ScriptedServer, scripted_api: KubernetesApi, answer: Callable[..., Answer]
) -> None:
    refusal = {"kind": "Status", "message": "deployments.apps is forbidden", "reason": "Forbidden", "code": 403}
    scripted.answers.append(answer(refusal, status=403))
    with pytest.raises(ForbiddenError, match="deployments") as refused:
        each_workload(scripted_api, None, lambda _: None)
    assert "ClusterRole view in all namespaces, or name one of them with -n" in str(refused.value)
