"""Which containers have which claims, from a kubelet's PodResources API on a real unix socket."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeletplugin.metrics.pod_resources import PodContainer, PodResources
from kubeletplugin.protocol import pod_resources_v1_pb2 as pb2
from tests.support.pod_resources import KubeletPods


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kubelet() -> Iterator[KubeletPods]:
    # Sockets have short paths, and pytest's folders long ones.
    with tempfile.TemporaryDirectory(prefix="rootport-") as folder:
        found = KubeletPods(Path(folder, "kubelet.sock"))
        yield found
        found.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(kubelet: KubeletPods, clock: Clock) -> PodResources:
    return PodResources(kubelet._socket, clock=clock)


def container(name: str, *claims: tuple[str, str]) -> pb2.ContainerResources:
    return pb2.ContainerResources(
        name=name,
        dynamic_resources=[
            pb2.DynamicResource(
                claim_namespace="ml",
                claim_name=claim,
                claim_resources=[
                    pb2.ClaimResource(driver_name=driver, pool_name="n1", device_name=device) for device in ("a", "b")
                ],
            )
            for claim, driver in claims
        ],
    )


def answer(*containers: pb2.ContainerResources, pod: str = "p") -> pb2.ListPodResourcesResponse:
    return pb2.ListPodResourcesResponse(
        pod_resources=[
            pb2.PodResources(name="idle", namespace="ml"),
            pb2.PodResources(name=pod, namespace="ml", containers=containers),
        ]
    )


OURS = "rootport.dev"


def test_containers_are_found_by_their_claims_of_this_driver(kubelet: KubeletPods, client: PodResources) -> None:
    kubelet.answer = answer(
        container("b", ("gpu", OURS)), container("a", ("gpu", OURS), ("other", "gpu.example.com")), container("c")
    )
    kubelet.start()
    assert client.containers() == {
        ("ml", "gpu"): (PodContainer(pod="p", container="a"), PodContainer(pod="p", container="b"))
    }


def test_the_kubelet_is_asked_every_ten_seconds_at_most(
    kubelet: KubeletPods, client: PodResources, clock: Clock
) -> None:
    kubelet.start()
    assert client.containers() == {}
    kubelet.answer = answer(container("a", ("gpu", OURS)))
    clock.now = 9.9
    assert (client.containers(), kubelet.calls) == ({}, 1)
    clock.now = 10
    assert list(client.containers()) == [("ml", "gpu")]


def test_what_it_said_is_believed_for_a_minute_while_it_is_away(
    kubelet: KubeletPods, client: PodResources, clock: Clock
) -> None:
    kubelet.answer = answer(container("a", ("gpu", OURS)))
    kubelet.start()
    before = client.containers()
    kubelet.stop()
    clock.now = 50
    assert client.containers() == before
    clock.now = 60
    assert client.containers() == {}
    kubelet.start()
    clock.now = 70
    assert client.containers() == before


def test_a_kubelet_that_is_not_there_is_told_once(
    client: PodResources, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for clock.now in (0, 20, 40):
        assert client.containers() == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_kubelet_that_hangs_is_waited_for_for_a_moment(
    kubelet: KubeletPods, client: PodResources, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("kubeletplugin.metrics.pod_resources._TIMEOUT_S", 0.1)
    kubelet.go_on.clear()
    kubelet.start()
    assert client.containers() == {}
    kubelet.go_on.set()
    kubelet.answer = answer(container("a", ("gpu", OURS)))
    clock.now = 10
    assert list(client.containers()) == [("ml", "gpu")]


def devices(resource: str, *ids: str) -> pb2.ContainerDevices:
    return pb2.ContainerDevices(resource_name=resource, device_ids=ids)


def test_the_devices_of_device_plugins_are_told_with_who_holds_them(kubelet: KubeletPods, client: PodResources) -> None:
    kubelet.allocatable.devices.extend([devices("nvidia.com/gpu", "GPU-1"), devices("nvidia.com/gpu", "GPU-2")])
    holder = pb2.ContainerResources(name="main", devices=[devices("nvidia.com/gpu", "GPU-2")])
    other = pb2.ContainerResources(name="side", devices=[devices("rdma/hca", "0")])
    kubelet.answer.pod_resources.append(pb2.PodResources(name="train", namespace="ml", containers=[holder, other]))
    kubelet.start()
    found = client.plugin_devices()
    assert found is not None
    assert found.offered == {"nvidia.com/gpu": {"GPU-1", "GPU-2"}}
    assert found.held == {"nvidia.com/gpu": {"ml/train": {"GPU-2"}}, "rdma/hca": {"ml/train": {"0"}}}


def test_the_drivers_of_whose_claims_containers_have_devices_are_told(
    kubelet: KubeletPods, client: PodResources
) -> None:
    used = [pb2.ClaimResource(driver_name=name) for name in ("gpu.nvidia.com", "rootport.dev")]
    claim = pb2.DynamicResource(claim_name="c", claim_namespace="ml", claim_resources=used)
    kubelet.answer.pod_resources.append(
        pb2.PodResources(name="p", containers=[pb2.ContainerResources(name="main", dynamic_resources=[claim])])
    )
    kubelet.start()
    found = client.plugin_devices()
    assert found is not None
    assert found.drivers == {"gpu.nvidia.com"}


def test_a_kubelet_that_does_not_answer_says_nothing_of_device_plugins(client: PodResources) -> None:
    assert client.plugin_devices() is None


def test_of_very_many_devices_it_is_only_known_that_there_are_some(kubelet: KubeletPods, client: PodResources) -> None:
    kubelet.allocatable.devices.append(devices("acme.com/memory", *map(str, range(9000))))
    kubelet.allocatable.devices.extend(devices(f"acme.com/r{number}", "0") for number in range(400))
    kubelet.start()
    found = client.plugin_devices()
    assert found is not None
    assert len(found.offered["acme.com/memory"]) == 1
    assert len(found.offered) == 256
