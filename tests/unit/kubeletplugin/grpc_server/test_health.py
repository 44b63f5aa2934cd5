"""The health stream over a real socket."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from kubeletplugin.grpc_server.health import ALPHA_SERVICE, MAX_STREAMS, SERVICE, HealthFeed
from kubeletplugin.protocol import dra_health_v1_pb2 as protocol
from kubeletplugin.protocol import dra_health_v1_pb2_grpc as protocol_grpc
from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc
from kubeletplugin.service import DeviceHealth

GOOD = DeviceHealth(pool="node-1", device="gpu-0", healthy=True)
BAD = DeviceHealth(pool="node-1", device="gpu-0", healthy=False, message="XID 79: fallen off the bus")
UNKNOWN = DeviceHealth(pool="node-1", device="gpu-1", healthy=None)


def watch(node, server=None):
    server = server or node.servers[-1]
    client = protocol_grpc.DRAResourceHealthStub(node.channel(server.endpoint))
    return client.NodeWatchResources(protocol.NodeWatchResourcesRequest(), timeout=20)


def test_a_kubelet_before_1_37_gets_the_same_list_by_the_name_that_it_knows(node) -> None:
    node.health.set(BAD)
    node.started()
    ask = node.channel(node.servers[-1].endpoint).unary_stream(
        f"/{ALPHA_SERVICE}/NodeWatchResources",
        request_serializer=protocol.NodeWatchResourcesRequest.SerializeToString,
        response_deserializer=protocol.NodeWatchResourcesResponse.FromString,
    )
    by_old_name, by_new_name = next(ask(protocol.NodeWatchResourcesRequest(), timeout=20)), next(watch(node))
    assert healths(by_old_name) == healths(by_new_name) == {"gpu-0": "UNHEALTHY"}


def test_which_service_a_stream_is_of_is_told_when_it_opens_and_ends(node) -> None:
    class Streams:
        seen: list[str] = []  # noqa: RUF012 - of this test alone

        def opened(self, service: str) -> None:
            self.seen.append(f"+{service}")

        def closed(self, service: str) -> None:
            self.seen.append(f"-{service}")

    node.server(streams=Streams()).start()
    old = node.channel(node.servers[-1].endpoint).unary_stream(
        f"/{ALPHA_SERVICE}/NodeWatchResources",
        request_serializer=protocol.NodeWatchResourcesRequest.SerializeToString,
        response_deserializer=protocol.NodeWatchResourcesResponse.FromString,
    )(protocol.NodeWatchResourcesRequest(), timeout=20)
    new = watch(node)
    next(old), next(new)
    assert sorted(Streams.seen) == [f"+{SERVICE}", f"+{ALPHA_SERVICE}"]
    old.cancel()
    deadline = time.monotonic() + 10
    while f"-{ALPHA_SERVICE}" not in Streams.seen and time.monotonic() < deadline:
        time.sleep(0.02)
    assert f"-{ALPHA_SERVICE}" in Streams.seen
    assert f"-{SERVICE}" not in Streams.seen


def healths(response) -> dict[str, str]:
    return {item.device.device_name: protocol.HealthStatus.Name(item.health) for item in response.devices}


def test_a_stream_starts_with_the_complete_list(node) -> None:
    node.health.set(BAD, UNKNOWN)
    node.started()
    before = int(time.time())
    bad, unknown = next(watch(node)).devices
    assert (bad.device.pool_name, bad.device.device_name) == ("node-1", "gpu-0")
    assert (bad.health, bad.message) == (protocol.HealthStatus.UNHEALTHY, "XID 79: fallen off the bus")
    assert (unknown.health, unknown.message) == (protocol.HealthStatus.UNKNOWN, "")
    assert before <= bad.last_updated_time <= time.time()
    assert bad.health_check_timeout_seconds == 30


def test_an_empty_list_is_sent_too(node) -> None:
    node.started()
    assert not next(watch(node)).devices


def test_every_stream_hears_every_change_at_once(node) -> None:
    node.health.set(GOOD)
    node.started()
    streams = [watch(node) for _ in range(MAX_STREAMS)]
    assert [healths(next(stream)) for stream in streams] == [{"gpu-0": "HEALTHY"}] * MAX_STREAMS
    start = time.monotonic()
    node.health.set(BAD)
    assert [healths(next(stream)) for stream in streams] == [{"gpu-0": "UNHEALTHY"}] * MAX_STREAMS
    assert time.monotonic() - start < 5


def test_one_stream_too_many_is_refused_and_a_closed_one_makes_room(node) -> None:
    node.started()
    streams = [watch(node) for _ in range(MAX_STREAMS)]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as refused:
        next(watch(node))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    streams[0].cancel()
    assert eventually(lambda: next(watch(node)) is not None)


def eventually(attempt) -> bool:
    """Try until it does not raise: the server hears of a cancelled stream in its own time."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            return attempt()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
    return False


def test_streams_end_at_once_when_the_plugin_stops(node) -> None:
    server = node.started()
    streams = [watch(node) for _ in range(2)]
    for stream in streams:
        next(stream)
    start = time.monotonic()
    server.stop(20)
    assert time.monotonic() - start < 5
    for stream in streams:
        assert next(stream, None) is None
        assert stream.code() is grpc.StatusCode.OK


def test_claims_are_answered_while_all_streams_are_open(node) -> None:
    server = node.started()
    streams = [watch(node) for _ in range(MAX_STREAMS)]
    for stream in streams:
        next(stream)
    client = dra_v1_pb2_grpc.DRAPluginStub(node.channel(server.endpoint))
    claims = [dra_v1_pb2.Claim(namespace="team", name="a", uid="u1")]
    answers = [
        client.NodePrepareResources.future(dra_v1_pb2.NodePrepareResourcesRequest(claims=claims), timeout=10)
        for _ in range(50)
    ]
    assert all(answer.result().claims["u1"].devices for answer in answers)


def test_a_message_is_cut_between_characters_at_what_the_kubelet_keeps(node) -> None:
    node.health.set(DeviceHealth(pool="node-1", device="gpu-0", healthy=False, message="a" + "ü" * 2000))
    node.started()
    message = next(watch(node)).devices[0].message
    assert message == "a" + "ü" * 511


@pytest.fixture
def stream(node) -> Iterator[tuple[HealthFeed, queue.Queue[dict[str, str]]]]:
    """The feed itself, with a short wait before the list is sent again."""
    node.health.set(GOOD)
    feed = HealthFeed(node.health, resend_s=0.05)
    feed.start()
    heard: queue.Queue[dict[str, str]] = queue.Queue()
    gone = threading.Event()

    def listen() -> None:
        for response in feed.responses(gone):
            heard.put(healths(response))

    thread = threading.Thread(target=listen)
    thread.start()
    yield feed, heard
    feed.close()
    thread.join(10)
    assert not thread.is_alive()


def test_the_list_is_sent_again_while_nothing_changes(stream) -> None:
    _, heard = stream
    assert [heard.get(timeout=10) for _ in range(3)] == [{"gpu-0": "HEALTHY"}] * 3


def test_a_fault_of_the_source_ends_no_stream(stream, node, monkeypatch, caplog) -> None:
    _, heard = stream
    assert heard.get(timeout=10) == {"gpu-0": "HEALTHY"}
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError("no such device")

    with monkeypatch.context() as patch:
        patch.setattr(node.health, "current", fail)
        assert failed.wait(10)
    node.health.set(BAD)
    while heard.get(timeout=10) != {"gpu-0": "UNHEALTHY"}:
        pass
    assert "health-source-raised" in caplog.text


def test_without_a_change_nothing_is_sent_before_its_time(node) -> None:
    feed = HealthFeed(node.health, resend_s=60)
    feed.start()
    gone = threading.Event()
    heard = [0]

    def listen() -> None:
        for _ in feed.responses(gone):
            heard[0] += 1
            first.set()

    first = threading.Event()
    thread = threading.Thread(target=listen)
    thread.start()
    assert first.wait(10)
    thread.join(0.3)
    assert thread.is_alive()
    gone.set()
    feed.wake()
    thread.join(10)
    feed.close()
    assert heard == [1]
