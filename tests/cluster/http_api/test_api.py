"""The routes of the HTTP API: who may ask, and what they are told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import jsonschema
import pytest

from controller.api.openapi import document
from controller.explanations.service import Explanations
from controller.overview.store import Overview
from tests.cluster.http_api.conftest import Leader
from tests.support.api_client import Client, Event
from tests.support.shown_nodes import gpu, nic, put, status

pytestmark = pytest.mark.needs_go

Clients = Callable[..., Client]
TokenWith = Callable[..., str]

_SUMMARIES = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"
_DEVICES = ["/api/v1/nodes", "/api/v1/nodes/a", "/api/v1/events", _SUMMARIES, f"{_SUMMARIES}/a"]
_PENDING = "/api/v1/claims/pending"


@pytest.fixture
def viewer(client: Clients, token_with: TokenWith) -> Client:
    return client(token_with("rootport-viewer"))


def until(stream: Iterator[Event], kind: str) -> Event:
    return next(event for event in stream if event.kind == kind)


def fits(value: Any, schema: str) -> None:
    """Whether an answer is what the OpenAPI document says."""
    whole = document()
    jsonschema.Draft202012Validator(
        {"$ref": f"#/components/schemas/{schema}", "components": whole["components"]}
    ).validate(value)


@pytest.mark.parametrize("path", [*_DEVICES, _PENDING])
def test_without_a_token_nothing_is_shown(client: Clients, path: str) -> None:
    for asked in (client(), client("made-up")):
        said = asked.get(path)
        assert (said.status, said.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("path", [*_DEVICES, _PENDING])
def test_a_caller_who_may_not_read_it_with_kubectl_may_not_here(
    client: Clients, token_with: TokenWith, path: str
) -> None:
    assert client(token_with()).get(path).status == 403


def test_devices_and_claims_are_rights_of_their_own(
    client: Clients, token_with: TokenWith, viewer: Client, explanations: Explanations
) -> None:
    assert viewer.get(_PENDING).status == 403
    explainer = client(token_with("rootport-explain"))
    assert explainer.get("/api/v1/nodes").status == 403
    # "None" would be a lie before the claims have been read.
    said = explainer.get(_PENDING)
    assert (said.status, said.headers["retry-after"]) == (503, "2")
    explanations._pending.refresh()
    said = explainer.get(_PENDING)
    assert (said.status, said.json) == (200, {"claims": []})
    fits(said.json, "PendingClaims")


@pytest.mark.parametrize("path", [*_DEVICES, _PENDING, "/api/v1/openapi.json", "/api/v1/pods/a/b/explain"])
def test_it_is_read_only(viewer: Client, path: str) -> None:
    said = viewer.get(path, method="POST")
    assert (said.status, said.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", _DEVICES)
def test_a_controller_without_data_names_the_one_that_has_it(viewer: Client, leader: Leader, path: str) -> None:
    leader.problem = "this controller does not lead: rootport-controller-x does"
    said = viewer.get(path)
    assert (said.status, said.headers["retry-after"], said.text) == (503, "2", f"{leader.problem}\n")


def test_all_nodes_are_shown_with_their_version_compressed_or_not(viewer: Client, overview: Overview) -> None:
    for index in reversed(range(200)):
        put(overview, f"n{index:03}", gpu("n"), nic("n"))
    put(overview, "n000", state="Silent", reason="NoHeartbeat")
    plain = viewer.get("/api/v1/nodes", {"Accept-Encoding": "gzip;q=0"})
    zipped = viewer.get("/api/v1/nodes", {"Accept-Encoding": "br, gzip"})
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert plain.json == zipped.json
    fits(plain.json, "NodeList")
    assert plain.json["version"] == overview.version
    assert [node["name"] for node in plain.json["nodes"]] == [f"n{index:03}" for index in range(200)]
    assert plain.json["nodes"][0]["reason"] == "NoHeartbeat"


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_client_that_has_them_already_gets_not_modified(viewer: Client, overview: Overview, encoding: str) -> None:
    put(overview, "a")
    asked = {"Accept-Encoding": encoding}
    tag = viewer.get("/api/v1/nodes", asked).headers["etag"]
    again = viewer.get("/api/v1/nodes", asked | {"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")
    assert viewer.get("/api/v1/nodes", asked | {"If-None-Match": '"other"'}).status == 200


def test_no_nodes_are_an_empty_list(viewer: Client) -> None:
    assert viewer.get("/api/v1/nodes").json == {"version": 1000, "nodes": []}
    assert viewer.get(_SUMMARIES).json == {}


def test_a_node_is_shown_with_its_devices_in_full(viewer: Client, overview: Overview) -> None:
    put(overview, "a", gpu("a"), nic("a"), statuses={"a.gpu-0": status("Unhealthy")}, reason="why")
    said = viewer.get("/api/v1/nodes/a").json
    fits(said, "Node")
    assert [device["metadata"]["name"] for device in said["devices"]] == ["a.gpu-0", "a.rdma-0"]
    assert said["devices"][0]["status"]["state"] == "Unhealthy"
    assert (said["name"], said["state"], said["reason"]) == ("a", "Ready", "why")


@pytest.mark.parametrize("path", ["/api/v1/nodes/none", "/api/v1/nodes/a/b", "/api/v1/nodes/..%2f", "/api/v1/other"])
def test_what_is_not_there_is_not_found(viewer: Client, overview: Overview, path: str) -> None:
    put(overview, "a")
    assert viewer.get(path).status == 404


def test_koordinators_summaries(viewer: Client, overview: Overview) -> None:
    put(overview, "a", gpu("a"), nic("a"))
    put(overview, "b")
    said = viewer.get(_SUMMARIES).json
    fits(said, "NodeDeviceSummaries")
    assert list(said) == ["a", "b"]
    assert said["a"]["deviceTotal"]["koordinator.sh/gpu-memory"] == "80Gi"
    assert viewer.get(f"{_SUMMARIES}/a").json == said["a"]
    assert "kubernetes.io/gpu-core" in viewer.get(f"{_SUMMARIES}/a?domain=kubernetes.io").json["deviceTotal"]
    assert viewer.get(f"{_SUMMARIES}?domain=example.com").status == 400
    missing = viewer.get(f"{_SUMMARIES}/none")
    assert (missing.status, missing.json) == (404, {"message": "cannot find node none"})


def test_changes_are_sent_as_they_happen(viewer: Client, overview: Overview) -> None:
    put(overview, "a")
    put(overview, "b")
    with viewer.events("/api/v1/events?since=1000") as stream:
        assert next(stream).kind == ":"
        first, second = (until(stream, "node") for _ in range(2))
        assert (first.data["name"], first.id) == ("a", None)
        assert (second.data["name"], second.id) == ("b", overview.version)
        fits(second.data, "NodeOverview")
        put(overview, "a", state="Silent")
        assert until(stream, "node").data["state"] == "Silent"
        overview.remove("a")
        assert next(stream) == Event(kind="gone", data={"name": "a"}, id=overview.version)
        overview.claims_changed()
        assert next(stream) == Event(kind="claims", data={}, id=overview.version)


def test_a_change_arrives_within_half_a_second(viewer: Client, overview: Overview) -> None:
    with viewer.events("/api/v1/events") as stream:
        next(stream)
        for index in range(3):
            began = time.monotonic()
            put(overview, "a", reason=str(index))
            until(stream, "node")
            assert time.monotonic() - began < 0.5


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/api/v1/events?since=7", {}),
        ("/api/v1/events?since=1001", {"Last-Event-ID": "7"}),
        ("/api/v1/events?since=9000000000000000", {}),
    ],
    ids=["old", "header", "future"],
)
def test_a_client_that_is_too_far_behind_must_read_everything_again(
    viewer: Client, overview: Overview, path: str, headers: dict[str, str]
) -> None:
    put(overview, "a")
    with viewer.events(path, headers) as stream:
        assert until(stream, "reset") == Event(kind="reset", data={}, id=1001)
        put(overview, "b")
        assert until(stream, "node").data["name"] == "b"


@pytest.mark.parametrize("since", ["", "x", "-1", "1" * 17, "%C2%B2"])
def test_a_version_that_is_none_is_refused(viewer: Client, since: str) -> None:
    assert viewer.get(f"/api/v1/events?since={since}").status == 400


def test_one_caller_has_so_many_streams_and_all_together_have_so_many(
    client: Clients, token_with: TokenWith, viewer: Client
) -> None:
    other = client(token_with("rootport-viewer", "rootport-explain"))
    with ExitStack() as streams:
        for _ in range(8):
            next(streams.enter_context(viewer.events("/api/v1/events")))
        for path in ("/api/v1/events", "/api/v1/nodes", _SUMMARIES):
            said = viewer.get(path)
            assert (said.status, "retry-after" in said.headers) == (429, True)
        next(streams.enter_context(other.events("/api/v1/events")))
        full = other.get("/api/v1/events")
        assert (full.status, full.headers["retry-after"]) == (503, "10")
        assert viewer.get("/api/v1/nodes/none").status == 404  # streams keep no thread from requests


def test_a_stream_whose_client_left_makes_room_for_another(viewer: Client) -> None:
    def opens() -> bool:
        said = viewer.status_of_stream("/api/v1/events")
        assert said in {200, 429}
        return said == 200

    for _ in range(8):
        assert opens()
    end = time.monotonic() + 10
    while not opens():
        assert time.monotonic() < end


def test_many_callers_at_once_are_all_answered(viewer: Client, overview: Overview) -> None:
    for index in range(50):
        put(overview, f"n{index}")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: viewer.get("/api/v1/nodes", {"Accept-Encoding": "gzip"}), range(64)))
    assert {answer.status for answer in answers} == {200}
    assert {len(answer.json["nodes"]) for answer in answers} == {50}


def test_explanations_are_under_the_api_as_well(client: Clients, token_with: TokenWith) -> None:
    explainer = client(token_with("rootport-explain"))
    for path in ("/claims/default/c/explain", "/api/v1/claims/default/c/explain"):
        said = explainer.get(path)
        assert (said.status, said.text) == (503, "this controller does not lead: ask another one\n")
    assert explainer.get("/api/v1/claims/default/c").status == 404
    assert client().get("/api/v1/claims/pending/c/explain").headers["www-authenticate"] == "Bearer"


def test_the_description_is_open_to_all_and_names_every_path(client: Clients) -> None:
    said = client().get("/api/v1/openapi.json")
    assert said.status == 200
    assert said.json == json.loads(json.dumps(document()))
    for schema in said.json["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {*_DEVICES[:1], "/api/v1/nodes/{name}", "/api/v1/events", _PENDING, _SUMMARIES} <= said.json["paths"].keys()


def test_the_dashboard_is_served_without_a_token_and_nothing_beside_its_files(client: Clients) -> None:
    anybody = client()
    root = anybody.get("/")
    assert (root.status, root.headers["location"]) == (302, "/dashboard/")
    for path in ("/dashboard/../main.py", "/dashboard/%2e%2e/main.py", "/dashboard//etc/passwd", "/other"):
        assert anybody.get(path).status == 404
    page = anybody.get("/dashboard/")
    if page.status == 404:
        pytest.skip("there is no page yet")
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert anybody.get("/dashboard/", {"If-None-Match": page.headers["etag"]}).status == 304
    assert anybody.get("/dashboard/", {"Accept-Encoding": "gzip"}).body == page.body
