"""What a conversion may cost, whatever is given to it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from driver.budget import Budget, SpentError
from driver.convert import Outcome, convert
from driver.convert.claims import claim_of
from driver.convert.requests import DeviceRequest, GpuRequest
from tests.unit.driver.convert.conversions import pod


def nested(levels: int) -> Any:
    value: Any = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    for _ in range(levels):
        value = {"spec": value}
    return value


def containers(count: int) -> dict[str, Any]:
    data = pod({"nvidia.com/gpu": "1"})
    data["spec"]["containers"] *= count
    return data


def test_pods_are_looked_for_to_a_depth() -> None:
    assert convert(nested(60)).outcome is Outcome.CONVERTED
    assert convert(nested(10_000)).outcome is Outcome.UNCHANGED


def test_a_pod_of_thousands_of_containers_is_refused_in_one_line() -> None:
    assert convert(containers(256)).outcome is Outcome.CONVERTED
    conversion = convert(containers(5000))
    assert [finding.outcome for finding in conversion.findings] == [Outcome.REFUSED]
    assert "at most 256" in conversion.findings[0].text


def test_an_object_of_thousands_of_pods_is_refused() -> None:
    data = {"kind": "Fleet", "pods": [pod({"nvidia.com/gpu": "1"})["spec"]] * 1001}
    assert convert(data).outcome is Outcome.REFUSED
    items = {"kind": "List", "items": [pod({"nvidia.com/gpu": "1"})] * 1001}
    conversion = convert(items)
    assert (conversion.outcome, len(conversion.findings)) == (Outcome.REFUSED, 1)


def test_long_names_and_values_are_shown_shortened() -> None:
    data = pod({"koordinator.sh/gpu": "9" * 100_000, "nvidia.com/mig-" + "g" * 100_000: "1"})
    data["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/" + "x" * 100_000: "y" * 100_000}
    conversion = convert(data)
    assert conversion.outcome is Outcome.REFUSED
    assert all(len(str(finding)) < 1000 for finding in conversion.findings)


@pytest.mark.parametrize("amount", ["1", "x"])
def test_a_container_of_thousands_of_resources_is_refused_in_one_line(amount: str) -> None:
    began = time.process_time()
    conversion = convert(pod({f"nvidia.com/mig-{number}": amount for number in range(80_000)}))
    assert time.process_time() - began < 0.5
    (finding,) = conversion.findings
    assert (finding.outcome, "more than 64" in finding.text) == (Outcome.REFUSED, True)
    assert convert(pod({f"nvidia.com/mig-{number}g.10gb": "1" for number in range(32)})).outcome is Outcome.CONVERTED


def test_of_many_reasons_the_first_are_told() -> None:
    conversion = convert(pod({f"nvidia.com/mig-{'g' * 40}{number}": "1" for number in range(64)}))
    (finding,) = conversion.findings
    assert finding.text.startswith("64 devices for one container")
    assert finding.text.endswith("; 57 more")
    assert len(finding.text) < 1500


def test_a_budget_ends_what_one_container_takes() -> None:
    request = DeviceRequest(gpus=tuple(GpuRequest(profile=f"{number}") for number in range(50_000)))
    with pytest.raises(SpentError), Budget(0.01).in_force():
        claim_of(request)


def test_a_budget_ends_it() -> None:
    with pytest.raises(SpentError), Budget(0.0).in_force():
        convert(containers(200))


def test_a_thousand_workloads_take_less_than_two_seconds() -> None:
    data = [
        pod({"koordinator.sh/gpu-core": str(core % 100 + 1), "koordinator.sh/gpu-memory": "20Gi"})
        for core in range(1000)
    ]
    began = time.process_time()
    for item in data:
        assert convert(item).outcome is Outcome.CONVERTED
    assert time.process_time() - began < 2
