"""NodePrepareResources and NodeUnprepareResources over a real socket: one entry for every claim, whatever happens."""

from __future__ import annotations

import logging
import threading
from types import ModuleType

import grpc
import pytest

from driver.errors import InputError, NodeError
from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from tests.support.waiting import eventually

VERSIONS = pytest.mark.parametrize(
    ("messages", "stubs"),
    [
        pytest.param(dra_v1_pb2, dra_v1_pb2_grpc, id="v1"),
        pytest.param(dra_v1beta1_pb2, dra_v1beta1_pb2_grpc, id="v1beta1"),
    ],
)


def stub(node, messages=dra_v1_pb2, stubs=dra_v1_pb2_grpc):
    return stubs.DRAPluginStub(node.channel(node.started().endpoint))


def claim(of: str, messages: ModuleType = dra_v1_pb2, **changes: str):
    return messages.Claim(**({"namespace": "team", "name": f"claim-{of}", "uid": of} | changes))


def prepare(client, *claims, messages: ModuleType = dra_v1_pb2):
    return client.NodePrepareResources(messages.NodePrepareResourcesRequest(claims=claims), timeout=10).claims


def unprepare(client, *claims, messages: ModuleType = dra_v1_pb2):
    return client.NodeUnprepareResources(messages.NodeUnprepareResourcesRequest(claims=claims), timeout=10).claims


@VERSIONS
def test_prepared_devices_are_told_with_pool_requests_and_cdi_ids(node, devices, messages, stubs) -> None:
    node.claims.outcomes["u1"] = devices("gpu-0", "gpu-1")
    answer = prepare(stub(node, messages, stubs), claim("u1", messages), messages=messages)
    assert set(answer) == {"u1"}
    assert answer["u1"].error == ""
    first, second = answer["u1"].devices
    assert (list(first.request_names), first.pool_name, first.device_name) == (["gpu"], "node-1", "gpu-0")
    assert list(first.cdi_device_ids) == ["rootport.dev/claim=gpu-0"]
    assert second.device_name == "gpu-1"


@VERSIONS
def test_unprepare_has_an_entry_for_every_claim_even_an_empty_one(node, messages, stubs) -> None:
    node.claims.outcomes["u2"] = NodeError("claim team/claim-u2 (uid u2): the CDI file cannot be removed")
    client = stub(node, messages, stubs)
    answer = unprepare(client, claim("u1", messages), claim("u2", messages), messages=messages)
    assert set(answer) == {"u1", "u2"}
    assert answer["u1"].error == ""
    assert "cannot be removed" in answer["u2"].error


def test_a_subrequest_is_told_as_its_request_once(node, devices) -> None:
    node.claims.outcomes["u1"] = devices("gpu-0", requests=("gpu/big", "gpu/small", "nic"))
    answer = prepare(stub(node), claim("u1"))
    assert list(answer["u1"].devices[0].request_names) == ["gpu", "nic"]


@pytest.mark.parametrize("share", [None, "0a1b2c3d-0000-4000-8000-000000000000"], ids=["no share", "a share"])
def test_a_share_is_told_where_the_protocol_has_it(node, devices, share) -> None:
    node.claims.outcomes["u1"] = devices("gpu-0", share=share)
    told = prepare(stub(node), claim("u1"))["u1"].devices[0]
    assert told.HasField("share_id") == (share is not None)
    assert told.share_id == (share or "")
    old = dra_v1beta1_pb2_grpc.DRAPluginStub(node.channel(node.servers[0].endpoint))
    device = prepare(old, claim("u1", dra_v1beta1_pb2), messages=dra_v1beta1_pb2)["u1"].devices[0]
    # Read as v1, so that a field the older version does not know would show.
    assert dra_v1_pb2.Device.FromString(device.SerializeToString()).share_id == ""


def test_a_claim_without_devices_of_this_driver_is_prepared(node, devices) -> None:
    node.claims.outcomes["u1"] = devices()
    answer = prepare(stub(node), claim("u1"))
    assert set(answer) == {"u1"}
    assert not answer["u1"].devices
    assert answer["u1"].error == ""


def test_no_claims_are_answered_with_none(node) -> None:
    client = stub(node)
    assert not prepare(client)
    assert not unprepare(client)
    assert node.claims.calls == []


def test_a_claim_named_twice_is_asked_for_once(node) -> None:
    answer = prepare(stub(node), claim("u1"), claim("u2"), claim("u1"))
    assert set(answer) == {"u1", "u2"}
    assert node.claims.calls == [("u1", "u2")]


def test_two_claims_with_one_uid_are_refused_and_the_others_prepared(node) -> None:
    answer = prepare(stub(node), claim("u1"), claim("u1", name="other"), claim("u2"))
    assert "have one uid" in answer["u1"].error
    assert len(answer["u2"].devices) == 1
    assert node.claims.calls == [("u2",)]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"uid": "../etc"}, id="uid is a path"),
        pytest.param({"uid": ""}, id="no uid"),
        pytest.param({"uid": "u" * 300_000}, id="endless uid"),
        pytest.param({"namespace": "a/b"}, id="namespace is a path"),
        pytest.param({"name": "a\nb"}, id="name has a line break"),
    ],
)
def test_a_claim_that_kubernetes_could_not_have_fails_alone_and_reaches_no_service(node, wrong) -> None:
    bad = claim("bad", **wrong)
    answer = prepare(stub(node), bad, claim("u2"))
    assert set(answer) == {bad.uid, "u2"}
    assert "look at the kubelet" in answer[bad.uid].error
    assert len(answer[bad.uid].error) < 2100
    assert node.claims.calls == [("u2",)]


def test_one_claims_failure_leaves_the_others_prepared(node) -> None:
    node.claims.outcomes["u1"] = InputError("claim team/claim-u1 (uid u1): no such profile", hint="use 1g.10gb")
    answer = prepare(stub(node), claim("u1"), claim("u2"))
    assert not answer["u1"].devices
    assert answer["u1"].error == (
        "claim team/claim-u1 (uid u1): no such profile; use 1g.10gb; the kubelet tries again, but only a change helps"
    )
    assert len(answer["u2"].devices) == 1


@pytest.mark.parametrize("ask", [prepare, unprepare])
def test_an_error_that_may_pass_says_so_on_one_line(node, ask) -> None:
    node.claims.outcomes["u1"] = NodeError("the GPU does not answer\nat all", hint="reset it")
    answer = ask(stub(node), claim("u1"))
    assert answer["u1"].error == (
        "the GPU does not answer at all; reset it; the kubelet tries again, and that may help"
    )


def test_an_endless_error_is_cut_and_keeps_what_to_expect(node) -> None:
    node.claims.outcomes["u1"] = InputError("ü" * 10_000)
    error = prepare(stub(node), claim("u1"))["u1"].error
    assert len(error.encode()) <= 2048
    assert error.endswith("...; the kubelet tries again, but only a change helps")


def test_an_error_that_is_no_text_is_told_all_the_same(node) -> None:
    node.claims.outcomes["u1"] = NodeError("the file \udcff is broken")
    assert "the file \\udcff is broken" in prepare(stub(node), claim("u1"))["u1"].error


@pytest.mark.parametrize("ask", [prepare, unprepare])
def test_an_unexpected_exception_becomes_that_claims_error_and_is_logged_with_its_traceback(node, ask, caplog) -> None:
    node.claims.outcomes["u2"] = ZeroDivisionError("division by zero")
    answer = ask(stub(node), claim("u1"), claim("u2"), claim("u3"))
    assert answer["u1"].error == answer["u3"].error == ""
    assert "claim team/claim-u2 (uid u2)" in answer["u2"].error
    assert "ZeroDivisionError: division by zero" in answer["u2"].error
    logged = [record for record in caplog.records if record.exc_info]
    assert logged[-1].exc_info[0] is ZeroDivisionError
    assert node.claims.calls == [("u1", "u2", "u3"), ("u1",), ("u2",), ("u3",)]


def test_a_claim_that_the_service_forgot_has_an_error(node) -> None:
    node.claims.outcomes["u1"] = "forgotten"
    answer = prepare(stub(node), claim("u1"), claim("u2"))
    assert "gave no answer" in answer["u1"].error
    assert len(answer["u2"].devices) == 1


def test_as_many_claims_as_allowed_are_answered_and_one_more_is_refused(node) -> None:
    client = stub(node)
    node.claims.outcomes |= {f"u{number}": InputError("e" * 5000) for number in range(1024)}
    assert len(prepare(client, *(claim(f"u{number}") for number in range(1024)))) == 1024
    with pytest.raises(grpc.RpcError, match="at most 1024") as refused:
        prepare(client, *(claim(f"u{number}") for number in range(1025)))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_huge_message_is_refused(node) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        prepare(stub(node), claim("u1", name="n" * 2_000_000))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert node.claims.calls == []


def test_each_call_ends_with_one_log_line_under_one_id(node, caplog) -> None:
    caplog.set_level(logging.INFO)
    node.claims.outcomes["u2"] = NodeError('a "quoted"\nline')
    prepare(stub(node), claim("u1"), claim("u2"))

    def logged() -> list[str] | None:
        found = [record.getMessage() for record in caplog.records if "NodePrepareResources" in record.getMessage()]
        return found if any(" ms=" in line for line in found) else None

    # The line that ends the call is written once the answer is sent.
    lines = eventually("the call's last line", logged)
    failed, ended = (dict(part.split("=", 1) for part in line.split(" ") if "=" in part) for line in lines)
    assert (ended["call"], ended["claims"], ended["failed"]) == ("NodePrepareResources", "2", "1")
    assert ended["op"] == failed["op"]
    assert float(ended["ms"]) >= 0
    assert all("\n" not in line for line in lines)


@VERSIONS
def test_claims_are_unprepared_while_every_prepare_waits_for_the_api_server(node, messages, stubs) -> None:
    may_end = threading.Event()
    usual = node.claims.prepare

    def prepare_later(claims):
        assert may_end.wait(20)
        return usual(claims)

    node.claims.prepare = prepare_later
    client = stub(node, messages, stubs)
    waiting = [
        client.NodePrepareResources.future(messages.NodePrepareResourcesRequest(claims=[claim(f"u{i}", messages)]))
        for i in range(40)
    ]
    try:
        assert unprepare(client, claim("u99", messages), messages=messages)["u99"].error == ""
    finally:
        may_end.set()
    assert [set(call.result(20).claims) for call in waiting] == [{f"u{i}"} for i in range(40)]
