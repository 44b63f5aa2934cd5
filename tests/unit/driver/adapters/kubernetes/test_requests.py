"""What a request's URL is, which names it refuses, and what a refusal becomes. No server."""

from __future__ import annotations

import json

import pytest

from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ApiServerError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NamespaceTerminatingError,
    NotFoundError,
    UnavailableError,
)
from driver.adapters.kubernetes.refusals import refusal, refusal_of_status
from driver.adapters.kubernetes.request import Request, Verb
from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES, NODES, RESOURCE_CLAIMS, Resource, object_key
from driver.backoff import Backoff


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        pytest.param(Request(verb="list", resource=NODES), "/api/v1/nodes", id="core, all"),
        pytest.param(
            Request(verb="get", resource=RESOURCE_CLAIMS, namespace="default", name="a"),
            "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}",
            id="namespaced",
        ),
        pytest.param(
            Request(verb="list", resource=RESOURCE_CLAIMS),
            "/apis/resource.k8s.io/v1/resourceclaims",
            id="all namespaces",
        ),
        pytest.param(
            Request(verb="patch", resource=NODE_INVENTORIES, name="n", subresource="status"),
            "/apis/rootport.dev/v1alpha1/nodeinventories/{name}/status",
            id="subresource",
        ),
    ],
)
def test_a_request_has_the_path_of_its_object(request_: Request, path: str) -> None:
    assert request_.path == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
@pytest.mark.parametrize("verb", ["get", "update", "patch", "delete"])
def test_a_name_that_would_reach_something_else_is_refused(name: str, verb: Verb) -> None:
    with pytest.raises(InvalidError, match="is no name of an object"):
        Request(verb=verb, resource=DEVICES, name=name)


def test_a_namespace_that_would_reach_something_else_is_refused() -> None:
    with pytest.raises(InvalidError, match="is no namespace of an object"):
        Request(verb="list", resource=RESOURCE_CLAIMS, namespace="..")


def test_scope_and_namespace_must_agree() -> None:
    with pytest.raises(ValueError, match="namespace is missing"):
        Request(verb="get", resource=RESOURCE_CLAIMS, name="a")
    with pytest.raises(ValueError, match="not namespaced"):
        Request(verb="get", resource=NODES, namespace="default", name="a")


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", ForbiddenError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", ApiServerError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", ExpiredError),
        (413, "RequestEntityTooLarge", InvalidError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", UnavailableError),
        (500, "InternalError", UnavailableError),
        (503, "ServiceUnavailable", UnavailableError),
    ],
)
def test_each_refusal_has_its_error(status: int, reason: str, kind: type[ApiServerError]) -> None:
    body = json.dumps({"kind": "Status", "message": "the words", "reason": reason, "code": status}).encode()
    error = refusal(Request(verb="get", resource=DEVICES, name="gpu-0"), status, body, None)
    assert type(error) is kind
    assert error.message == f"cannot get devices.rootport.dev gpu-0: the words (HTTP {status})"
    assert (error.status, error.reason) == (status, reason)
    assert error.retry_helps is (kind is UnavailableError)


def test_a_refusal_names_the_fields_at_fault() -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "too long"}, {"message": "no field"}]
    body = {"kind": "Status", "message": "m", "reason": "Invalid", "details": {"causes": causes}}
    error = refusal(Request(verb="create", resource=DEVICES), 422, json.dumps(body).encode(), None)
    assert error.causes == ("spec.x: too long", "no field")


def test_a_namespace_that_is_being_deleted_is_as_good_as_gone() -> None:
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "namespace a is being …"}]
    body = {"kind": "Status", "message": "m", "reason": "Forbidden", "details": {"causes": causes}}
    request = Request(verb="create", resource=RESOURCE_CLAIMS, namespace="a")
    error = refusal(request, 403, json.dumps(body).encode(), None)
    assert type(error) is NamespaceTerminatingError
    assert isinstance(error, NotFoundError)
    assert "RBAC" not in str(error)


def test_what_rbac_forbids_names_verb_subresource_and_group() -> None:
    body = b'{"kind":"Status","message":"no","reason":"Forbidden"}'
    request = Request(verb="patch", resource=NODE_INVENTORIES, name="n", subresource="status")
    assert "allow the verb 'patch' on 'nodeinventories/status' in API group 'rootport.dev'" in str(
        refusal(request, 403, body, None)
    )


def test_a_kind_that_the_server_does_not_serve_hints_at_its_crd() -> None:
    error = refusal(Request(verb="list", resource=DEVICES), 404, b"404 page not found\n", None)
    assert isinstance(error, NotFoundError)
    assert "install its CRD" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("", None), ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("inf", 600.0), ("-1", 0.0)],
)
def test_retry_after_is_kept_within_reason(header: str, seconds: float | None) -> None:
    error = refusal(Request(verb="list", resource=NODES), 429, b"slow down", header)
    assert isinstance(error, UnavailableError)
    assert error.retry_after_s == seconds


def test_a_strange_answer_is_cut_and_cannot_write_to_the_terminal() -> None:
    error = refusal(Request(verb="list", resource=NODES), 502, b"\x1b[31m" + b"x" * 10_000, None)
    assert error.message.isprintable()
    assert len(error.message) < 500


def test_a_refusal_in_the_middle_of_a_watch_has_its_error_too() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}
    error = refusal_of_status(Request(verb="watch", resource=NODES), status)
    assert isinstance(error, ExpiredError)
    assert error.message == "cannot watch nodes: too old resource version: 1 (9) (HTTP 410)"


def test_keys_name_the_namespace_where_there_is_one() -> None:
    assert object_key({"metadata": {"name": "n"}}) == "n"
    assert object_key({"metadata": {"name": "n", "namespace": "s"}}) == "s/n"


def test_resources_are_named_as_rbac_names_them() -> None:
    assert str(NODES) == "nodes"
    assert str(RESOURCE_CLAIMS) == "resourceclaims.resource.k8s.io"
    assert Resource("g", "v2", "as", "A").api_version == "g/v2"


def test_waits_double_up_to_a_limit_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(first_s=0.5, limit_s=30)
    waits = [backoff.next_s() for _ in range(9)]
    for wait, expected in zip(waits, (0.5, 1, 2, 4, 8, 16, 30, 30, 30), strict=True):
        assert 0.75 * expected <= wait <= 1.25 * expected
    assert len({wait / expected for wait, expected in zip(waits[6:], (30, 30, 30), strict=True)}) == 3
    backoff.reset()
    assert backoff.next_s() < 1
