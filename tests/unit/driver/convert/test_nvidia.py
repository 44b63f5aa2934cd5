"""What pods ask NVIDIA's device plugin for."""

from __future__ import annotations

from typing import Any

import pytest

from driver.convert import Outcome, Settings
from tests.unit.driver.convert.conversions import converted, fields, pod, request, requests

OWN = 'device.attributes["rootport.dev"]'


@pytest.mark.parametrize(
    ("resources", "claim", "selector"),
    [
        ({"nvidia.com/gpu": 1}, "gpu 1", f'{OWN}.vendor == "nvidia"'),
        ({"nvidia.com/gpu": "8"}, "gpu 8", f'{OWN}.vendor == "nvidia"'),
        ({"nvidia.com/gpu": "32"}, "gpu 32", f'{OWN}.vendor == "nvidia"'),
        ({"nvidia.com/gpu.shared": "1"}, "gpu-ratio 1 core=10 memoryRatio=10", f'{OWN}.vendor == "nvidia"'),
        ({"nvidia.com/mig-1g.10gb": "2"}, "mig 2", f'{OWN}.profile == "1g.10gb"'),
        ({"nvidia.com/mig-1g.10gb.me": "1"}, "mig 1", f'{OWN}.profile == "1g.10gb+me"'),
        ({"nvidia.com/mig-1g.24gb.me.all": "1"}, "mig 1", f'{OWN}.profile == "1g.24gb+me.all"'),
        ({"nvidia.com/mig-1g.24gb-me": "1"}, "mig 1", f'{OWN}.profile == "1g.24gb-me"'),
    ],
)
def test_gpus_shares_and_partitions_become_claims(resources: dict[str, Any], claim: str, selector: str) -> None:
    conversion = converted(pod(resources))
    assert request(conversion) == claim
    (item,) = requests(conversion)
    assert [each["cel"]["expression"] for each in item["exactly"]["selectors"]] == [selector]


def test_hundreds_of_gpus_are_read_as_percent_as_koordinators_documentation_writes() -> None:
    conversion = converted(pod({"nvidia.com/gpu": "100"}))
    assert (request(conversion), conversion.outcome) == ("gpu 1", Outcome.NOTED)
    assert (
        "no node has 100 GPUs"
        in fields(conversion, Outcome.NOTED)["spec.containers[0].resources.limits[nvidia.com/gpu]"]
    )


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"nvidia.com/gpu": "33"}, "a claim can have 32"),
        ({"nvidia.com/gpu": "3300"}, "a claim can have 32"),
        ({"nvidia.com/mig-1g.10gb": "33"}, "33 devices for one container"),
        ({"nvidia.com/mig-large": "1"}, "is no MIG profile: expected one such as 1g.10gb"),
        ({"nvidia.com/mig-1g.10gb\" || true || \"": "1"}, "is no MIG profile"),
        ({"nvidia.com/gpu": "20", "nvidia.com/mig-1g.10gb": "13"}, "33 devices"),
    ],
)  # fmt: skip
def test_what_no_claim_can_have_is_refused(resources: dict[str, str], words: str) -> None:
    conversion = converted(pod(resources))
    assert conversion.outcome is Outcome.REFUSED
    assert words in " ".join(fields(conversion, Outcome.REFUSED).values())


def test_gpus_and_partitions_of_one_container_are_in_one_claim() -> None:
    conversion = converted(pod({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"}))
    assert [item["name"] for item in requests(conversion)] == ["gpu", "mig", "mig-2"]


@pytest.mark.parametrize("resources", [{"nvidia.com/gpu": "0"}, {"nvidia.com/gpux": "1"}, {"nvidia.com/mig-": "1"}, {}])
def test_who_asks_for_none_stays_as_it_is(resources: dict[str, str]) -> None:
    assert converted(pod(resources)).outcome is Outcome.UNCHANGED


def test_a_resource_that_a_device_class_serves_can_be_left_alone() -> None:
    settings = Settings(left_alone=frozenset({"nvidia.com/gpu"}))
    assert converted(pod({"nvidia.com/gpu": "1"}), settings).outcome is Outcome.UNCHANGED


def test_two_systems_for_one_container_are_refused() -> None:
    conversion = converted(pod({"koordinator.sh/gpu": "100", "nvidia.com/gpu.shared": "1"}))
    assert fields(conversion, Outcome.REFUSED) == {
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]": (
            "the container asks for GPUs in the way of Koordinator as well: write one of the two"
        )
    }
