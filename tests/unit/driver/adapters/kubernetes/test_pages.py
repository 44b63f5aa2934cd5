"""Lists: in pages that are bounded in bytes, whatever the objects are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ExpiredError, TooLargeError
from driver.adapters.kubernetes.resources import NODES, JsonObject
from driver.adapters.kubernetes.snapshot import read_published
from driver.lint import unread

MIB: Final = 1024**2

Answers = Callable[..., Any]


def page(*names: str, following: str = "", version: str = "5", size: int = 0) -> JsonObject:
    items = [{"metadata": {"name": name, "resourceVersion": "1"}, "filling": "x" * size} for name in names]
    return {"metadata": {"continue": following, "resourceVersion": version}, "items": items}


def limits(requests: list[str]) -> list[int]:
    return [int(found) for request in requests for found in re.findall(r"[?&]limit=(\d+)", request)]


def test_small_objects_soon_come_by_the_hundreds(scripted: Any, scripted_api: KubernetesApi, answer: Answers) -> None:
    names = [f"n{number}" for number in range(500)]
    scripted.answers = [
        answer(page(*names[:64], following="a")),
        answer(page(*names[:256], following="b")),
        answer(page(*names, following="c")),
        answer(page("last")),
    ]
    assert len(scripted_api.list(NODES).items) == 821
    assert limits(scripted.requests) == [64, 256, 500, 500]


def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects(
    scripted: Any, scripted_api: KubernetesApi, answer: Answers
) -> None:
    scripted.answers = [
        answer(page("a", "b", following="t", size=MIB // 2)),
        answer(page("c", "d", size=3 * MIB)),
        answer(page("c", following="u", size=3 * MIB)),
        answer(page("d", size=3 * MIB)),
    ]
    listing = scripted_api.list(NODES)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c", "d"]
    sizes = limits(scripted.requests)
    assert sizes[0] > sizes[1] > sizes[2] == sizes[3] == 1
    assert ["continue=t" in request for request in scripted.requests] == [False, True, True, False]
    assert scripted_api.skipped.so_far() == {}


def test_an_object_that_is_too_large_alone_is_skipped_and_told_by_its_name(
    scripted: Any, scripted_api: KubernetesApi, answer: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.answers = [
        *[answer(page("large", following="t", size=17 * MIB))] * 3,
        answer(page("large", following="t")),
        answer(page("small")),
    ]
    listing = scripted_api.list(NODES)
    assert [item["metadata"]["name"] for item in listing.items] == ["small"]
    assert "PartialObjectMetadataList" in scripted.headers[3]["Accept"]
    assert "continue=t" in scripted.requests[4]
    assert scripted_api.skipped.so_far() == {("nodes", "TooLarge"): 1}
    (record,) = caplog.records
    assert vars(record)["object"] == "large@1"


def test_what_lint_reads_of_a_cluster_knows_of_the_objects_that_were_skipped(
    scripted: Any, scripted_api: KubernetesApi, answer: Answers
) -> None:
    scripted.answers = [answer({"metadata": {}, "items": ["no object"]}), answer(page()), answer(page())]
    left_out = unread(read_published(scripted_api))
    assert left_out.devices == "a ResourceSlice could not be read"
    assert not left_out.classes


def test_one_answer_longer_than_any_object_is_an_error(
    scripted: Any, scripted_api: KubernetesApi, answer: Answers
) -> None:
    scripted.answers = [answer({"metadata": {"name": "n"}, "filling": "x" * (17 * MIB)}), answer({"metadata": {}})]
    with pytest.raises(TooLargeError, match=r"get nodes n: the answer is longer than \d+ bytes"):
        scripted_api.get(NODES, "n")
    scripted_api.get(NODES, "n")


def test_what_is_no_list_is_an_error(scripted: Any, scripted_api: KubernetesApi, answer: Answers) -> None:
    scripted.answers = [answer({"items": {"a": 1}})]
    with pytest.raises(ApiServerError, match="the answer is no list"):
        scripted_api.list(NODES)


def test_a_list_whose_continue_token_expires_starts_anew_in_pages(
    scripted: Any, scripted_api: KubernetesApi, answer: Answers
) -> None:
    expired = answer({"kind": "Status", "reason": "Expired", "code": 410}, 410)
    scripted.answers = [
        answer(page("a", "b", following="t")),
        expired,
        answer(page("a", following="u", version="9")),
        answer(page("c", version="9")),
    ]
    listing = scripted_api.list(NODES)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "c"]
    assert listing.resource_version == "9"
    assert len(limits(scripted.requests)) == 4


def test_a_list_that_always_expires_is_given_up(scripted: Any, scripted_api: KubernetesApi, answer: Answers) -> None:
    expired = answer({"kind": "Status", "reason": "Expired", "code": 410}, 410)
    scripted.answers = [answer(page("a", following="t")), expired] * 3
    with pytest.raises(ExpiredError):
        scripted_api.list(NODES)
    assert scripted.answers == []
