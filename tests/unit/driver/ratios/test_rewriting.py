"""Requests for a percentage become lists over the sizes of a cluster; what cannot be one stays, with a reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api.quantity import Quantity
from driver.ratios import NO_SIZES, SizeCounter, Sizes, restored, rewritten

Fields = dict[str, Any]
GIB = 1 << 30


def gpu(memory: str, *, least: str = "1Mi", step: str = "1Mi", strategy: str = "") -> Fields:
    attributes = {"type": {"string": "gpu"}} | ({"sharingStrategy": {"string": strategy}} if strategy else {})
    policy = {"default": memory, "validRange": {"min": least, "step": step, "max": memory}}
    return {
        "name": "g",
        "attributes": attributes,
        "capacity": {"core": {"value": "100"}, "memory": {"value": memory, "requestPolicy": policy}},
        "allowMultipleAllocations": True,
    }


def nic(bandwidth: str) -> Fields:
    policy = {"default": bandwidth, "validRange": {"min": "1G", "step": "1G", "max": bandwidth}}
    return {
        "attributes": {"type": {"string": "rdma"}},
        "capacity": {"bandwidth": {"value": bandwidth, "requestPolicy": policy}},
        "allowMultipleAllocations": True,
    }


def sizes(*devices: Fields) -> Sizes:
    counter = SizeCounter()
    for device in devices:
        counter.add(device)
    return counter.sizes()


def request(percent: str = "25", **fields: Any) -> Fields:
    asked = {"deviceClassName": "gpu-ratio.rootport.dev", "capacity": {"requests": {"memoryRatio": percent}}}
    return {"name": "gpu", "exactly": asked | fields}


def listed(devices: Fields, index: int = 0) -> list[Fields]:
    found: list[Fields] = devices["requests"][index]["firstAvailable"]
    return found


def amounts(devices: Fields) -> list[Fields]:
    return [part["capacity"]["requests"] for part in listed(devices)]


TWO = sizes(gpu("81559Mi"), gpu("15360Mi"), gpu("81559Mi"), nic("400G"), nic("100G"))


def test_a_quarter_becomes_bytes_of_each_size_the_smallest_first_and_last_the_request_as_it_was() -> None:
    asked = request(capacity={"requests": {"core": "10", "memoryRatio": "25"}})
    found = rewritten({"requests": [asked]}, TWO)
    first, second, last = listed(dict(found.devices))
    assert [part["name"] for part in (first, second, last)] == ["ratio-of-15gi", "ratio-of-81559mi", "ratio"]
    assert first["deviceClassName"] == second["deviceClassName"] == "gpu.rootport.dev"
    assert first["capacity"]["requests"] == {"core": "10", "memory": "3840Mi"}
    assert second["capacity"]["requests"] == {"core": "10", "memory": "20389Mi"}
    assert 'quantity("15Gi")' in first["selectors"][0]["cel"]["expression"]
    assert last == {"name": "ratio", **asked["exactly"]}
    assert [change.text for change in found.changes] == ["firstAvailable: memory 3840Mi, 20389Mi, else memoryRatio 25"]


def test_nothing_is_changed_in_place_and_what_is_rewritten_stays_as_it_is() -> None:
    devices = {"requests": [request(), {"name": "other", "exactly": {"deviceClassName": "gpu.rootport.dev"}}]}
    before = copy.deepcopy(devices)
    once = rewritten(devices, TWO)
    assert devices == before
    again = rewritten(once.devices, sizes(gpu("40Gi"), gpu("8Gi")))
    assert again.devices is once.devices
    assert not again.changes
    assert once.devices["requests"][1] is devices["requests"][1]


def test_what_a_list_was_made_of_is_known_from_the_list_alone() -> None:
    quarter = {"name": "quarter", **request()["exactly"]}
    devices = {
        "requests": [
            request(),
            {"name": "two", "firstAvailable": [{"name": "whole", "deviceClassName": "mig.rootport.dev"}, quarter]},
            {"name": "one", "firstAvailable": [quarter]},
            {"name": "other", "exactly": {"deviceClassName": "gpu.rootport.dev"}},
        ],
        "constraints": [{"requests": ["gpu", "two/quarter"], "matchAttribute": "rootport.dev/pcieSwitch"}],
        "config": [{"requests": ["two/whole"], "opaque": {}}],
    }
    found = rewritten(devices, TWO).devices
    assert found != devices
    assert restored(found) == devices
    assert restored(devices) is devices


def test_count_selectors_and_tolerations_are_those_of_every_alternative() -> None:
    own = {"cel": {"expression": 'device.attributes["rootport.dev"].vendor == "nvidia"'}}
    fields = {"count": 2, "allocationMode": "ExactCount", "selectors": [own], "tolerations": [{"operator": "Exists"}]}
    found = rewritten({"requests": [request(**fields, adminAccess=False)]}, TWO)
    for part in listed(dict(found.devices)):
        assert (part["count"], part["allocationMode"], part["tolerations"]) == (2, "ExactCount", fields["tolerations"])
        assert part["selectors"][-1] == own
        assert "adminAccess" not in part


def test_of_more_than_seven_sizes_those_of_most_gpus_come_in_still_the_smallest_first() -> None:
    many = [gpu(f"{number}Gi") for number in range(1, 10) for _ in range(10 - number if number != 9 else 5)]
    found = rewritten({"requests": [request("100")]}, sizes(*many))
    assert [part.get("memory") for part in amounts(dict(found.devices))] == [
        *(f"{number}Gi" for number in (1, 2, 3, 4, 5, 6, 9)),
        None,
    ]


def test_where_policies_of_one_size_differ_the_share_is_no_more_than_either_rounds_down_to() -> None:
    mixed = sizes(gpu("80Gi"), gpu("80Gi", least="4Gi", step="3Gi"))
    found = rewritten({"requests": [request("25")]}, mixed)
    assert amounts(dict(found.devices))[0]["memory"] == "19Gi"  # 4 + 5 * 3


@given(
    st.integers(1, 300 * 1024),
    st.integers(0, 64),
    st.integers(1, 64),
    st.lists(st.integers(1, 100), min_size=1, max_size=8),
)
def test_percentages_that_add_up_to_100_fit_where_the_minimum_lets_them(
    memory: int, least: int, step: int, percents: list[int]
) -> None:
    if sum(percents) > 100:
        return
    (size,) = sizes(gpu(f"{memory}Mi", least=f"{least}Mi", step=f"{step}Mi")).by_kind.popitem()[1]  # type: ignore[attr-defined]
    shares = [size.share(percent) for percent in percents]
    smallest = (least or step) << 20
    assert sum(max(share - smallest, 0) for share in shares) <= memory << 20
    if all(memory * percent // 100 << 20 >= smallest for percent in percents):
        assert sum(shares) <= memory << 20


def test_strategies_have_their_own_sizes_and_classes() -> None:
    known = sizes(gpu("80Gi"), gpu("40Gi", strategy="mps"), gpu("20Gi", strategy="hamiCore"))
    for suffix, memory in (("", "20Gi"), ("-mps", "10Gi"), ("-hami-core", "5Gi")):
        found = rewritten({"requests": [request(deviceClassName=f"gpu-ratio{suffix}.rootport.dev")]}, known)
        first, last = listed(dict(found.devices))
        assert first["deviceClassName"] == f"gpu{suffix}.rootport.dev"
        assert first["capacity"]["requests"]["memory"] == memory
        assert last["deviceClassName"] == f"gpu-ratio{suffix}.rootport.dev"


def test_a_percentage_of_bandwidth_becomes_bits_of_each_speed() -> None:
    asked = {"deviceClassName": "rdma.rootport.dev", "capacity": {"requests": {"bandwidthRatio": "25"}}}
    found = rewritten({"requests": [{"name": "nic", "exactly": asked}]}, TWO)
    assert amounts(dict(found.devices)) == [{"bandwidth": "25G"}, {"bandwidth": "100G"}, {"bandwidthRatio": "25"}]
    assert {part["deviceClassName"] for part in listed(dict(found.devices))} == {"rdma.rootport.dev"}


def test_an_alternative_of_a_list_is_replaced_where_it_stands_and_its_name_by_all_of_them() -> None:
    quarter = {"name": "quarter", **request()["exactly"]}
    whole = {"name": "whole", "deviceClassName": "mig.rootport.dev"}
    devices = {
        "requests": [{"name": "gpu", "firstAvailable": [whole, quarter]}],
        "constraints": [{"requests": ["gpu/quarter"], "matchAttribute": "rootport.dev/pcieSwitch"}],
        "config": [{"requests": ["gpu/whole"], "opaque": {}}, {"requests": ["gpu"], "opaque": {}}],
    }
    found = rewritten(devices, TWO).devices
    names = ["quarter-of-15gi", "quarter-of-81559mi", "quarter"]
    assert [part["name"] for part in listed(dict(found))] == ["whole", *names]
    assert found["constraints"][0]["requests"] == [f"gpu/{name}" for name in names]
    assert found["config"] == devices["config"]
    assert rewritten(found, TWO).devices is found


def test_a_full_list_stays_and_a_nearly_full_one_gets_what_fits() -> None:
    others = [{"name": f"a{number}", "deviceClassName": "mig.rootport.dev"} for number in range(7)]
    quarter = {"name": "quarter", **request()["exactly"]}
    full = rewritten({"requests": [{"name": "gpu", "firstAvailable": [*others, quarter]}]}, TWO)
    assert "8 alternatives are the most" in full.changes[0].text
    found = rewritten({"requests": [{"name": "gpu", "firstAvailable": [*others[:6], quarter]}]}, TWO)
    assert [part["name"] for part in listed(dict(found.devices))][6:] == ["quarter-of-81559mi", "quarter"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"allocationMode": "All"}, "allocationMode All"),
        ({"adminAccess": True}, "adminAccess"),
        ({"deviceClassName": "team.example.com"}, "its class is not gpu-ratio.rootport.dev or gpu-ratio-mps"),
        ({"derivedAttributes": [{}]}, "derivedAttributes is not known"),
        ({"selectors": [{"cel": {"expression": "true"}}] * 32}, "another selector"),
        (
            {"selectors": [{"cel": {"expression": 'device.capacity["rootport.dev"].memoryRatio != null'}}]},
            "reads type or",
        ),
        ({"selectors": [{"cel": {"expression": 'device.attributes["rootport.dev"].type == "x"'}}]}, "reads type or"),
        ({"capacity": {"requests": {"memoryRatio": "25", "memory": "1Gi"}}}, "names memory as well"),
        *(
            ({"capacity": {"requests": {"memoryRatio": percent}}}, "whole number from 1 to 100")
            for percent in ("0", "101", "33.3", "25%", "", True, None, [1])
        ),
        ({"capacity": {"requests": {"memoryRatio": "50", "rootport.dev/memoryRatio": "90"}}}, "memoryRatio twice"),
    ],
)
def test_what_cannot_be_a_list_stays_with_the_reason(fields: Fields, why: str) -> None:
    devices = {"requests": [request(**fields)]}
    found = rewritten(devices, TWO)
    assert found.devices is devices
    assert [(change.is_rewritten, why in change.text) for change in found.changes] == [(False, True)]


@pytest.mark.parametrize(
    ("asked", "advised"),
    [("33.3", "34"), ("25.0", "25"), ("0.5", "50"), ("150", "75"), (101, "100"), ("1e2", "100")],
)
def test_what_is_not_a_percentage_leads_to_the_nearest_one(asked: Any, advised: str) -> None:
    found = rewritten({"requests": [request(capacity={"requests": {"memoryRatio": asked}})]}, TWO)
    assert f'memoryRatio: "{advised}"' in found.changes[0].text


def test_of_rootports_own_classes_it_is_known_which_become_lists() -> None:
    asked = {"deviceClassName": "rdma-vf.rootport.dev", "capacity": {"requests": {"bandwidthRatio": "20"}}}
    found = rewritten({"requests": [{"name": "vf", "exactly": asked}]}, TWO)
    assert found.changes[0].text == "only requests of class rdma.rootport.dev become lists"


def test_all_of_a_device_is_never_a_share_of_it_where_policies_differ() -> None:
    policies = (gpu("80Gi", least="1Gi", step="1Gi"), gpu("80Gi", least="30Gi", step="49Gi"))
    policies[1]["capacity"]["memory"]["requestPolicy"]["validRange"]["max"] = "79Gi"
    found = rewritten({"requests": [request("100")]}, sizes(*policies))
    assert amounts(dict(found.devices))[0]["memory"] == "80Gi"


def test_a_percentage_below_the_minimum_becomes_the_minimum() -> None:
    found = rewritten({"requests": [request("5")]}, sizes(gpu("80Gi", least="8Gi", step="1Gi")))
    assert amounts(dict(found.devices))[0]["memory"] == "8Gi"


def test_without_a_known_size_it_stays() -> None:
    for known in (NO_SIZES, sizes(nic("400G")), sizes(gpu("80Gi", strategy="mps"))):
        found = rewritten({"requests": [request()]}, known)
        assert "no device of a known size" in found.changes[0].text


def test_a_claim_for_so_many_devices_that_the_scheduler_would_search_too_long_stays() -> None:
    few = [{**request(), "name": f"gpu-{number}"} for number in range(4)]
    assert rewritten({"requests": few}, TWO).is_rewritten
    for many in ([*few, request()], [request(count=5)]):
        found = rewritten({"requests": many}, TWO)
        assert found.devices == {"requests": many}
        assert {change.text for change in found.changes} == {
            "kube-scheduler would search too long for more than 4 such devices of a claim"
        }


def test_constraints_that_would_name_too_many_requests_keep_all_as_it_is() -> None:
    quarter = {"name": "quarter", **request()["exactly"]}
    named = [f"gpu{number}/quarter" for number in range(4)] + [f"other{number}" for number in range(26)]
    devices = {
        "requests": [{"name": f"gpu{number}", "firstAvailable": [quarter]} for number in range(4)],
        "constraints": [{"requests": named, "matchAttribute": "rootport.dev/pcieSwitch"}],
    }
    found = rewritten(devices, TWO)
    assert found.devices is devices
    assert {change.text for change in found.changes} == {"an entry of constraints would name more than 32 requests"}


def test_a_name_that_leaves_no_room_for_the_size_stays() -> None:
    quarter = {"name": "q" * 60, **request()["exactly"]}
    found = rewritten({"requests": [{"name": "gpu", "firstAvailable": [quarter]}]}, TWO)
    assert "leaves no room" in found.changes[0].text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["25", "gpu-ratio.rootport.dev"]),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "requests",
                    "name",
                    "exactly",
                    "firstAvailable",
                    "capacity",
                    "memoryRatio",
                    "selectors",
                    "constraints",
                    "cel",
                ]
            ),
            part,
            max_size=4,
        )
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(["requests", "constraints", "config"]), JSON, max_size=3))
def test_whatever_is_given_there_is_an_answer(devices: Fields) -> None:
    found = rewritten(devices, TWO)
    assert rewritten(found.devices, TWO).devices == found.devices
    if found.is_rewritten:
        assert restored(found.devices) == devices
    restored(devices)


@given(st.dictionaries(st.sampled_from(["attributes", "capacity", "allowMultipleAllocations"]), JSON, max_size=3))
def test_devices_that_are_not_as_expected_are_passed_over(device: Fields) -> None:
    assert sizes(device | {"allowMultipleAllocations": True}) == NO_SIZES


def test_quantities_are_written_so_that_the_api_server_reads_the_same() -> None:
    found = rewritten({"requests": [request("33")]}, sizes(gpu("206158430208", least="1Mi", step="1Mi")))
    assert Quantity(amounts(dict(found.devices))[0]["memory"]).ceil() <= 206158430208 * 33 // 100
