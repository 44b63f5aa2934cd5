"""What requests get: counts, all devices, admin access, several claims, devices in use, limits."""

from __future__ import annotations

import pytest

from driver.allocator import AllAtOnceError, AllocationError, Allocator
from driver.api.resource_v1 import ResourceClaim
from tests.unit.driver.allocator.builders import (
    allocator,
    claim,
    device,
    distinct,
    exactly,
    given,
    held,
    match,
    node,
    resource_slice,
)

FOUR = resource_slice(*(device(name, g=group) for name, group in zip("abcd", (1, 2, 1, 2), strict=True)))
G = 'device.attributes["d"].g'


def ask(*claims: ResourceClaim, of: Allocator | None = None) -> list[list[str]] | None:
    return given((of or allocator(FOUR)).allocate(node(), claims))


def test_a_request_takes_the_first_devices() -> None:
    assert ask(claim(exactly("r", 2), exactly("s", 1))) == [["r=a", "r=b", "s=c"]]


def test_a_request_for_none_gets_none() -> None:
    assert ask(claim(exactly("r", 0), exactly("s", 1))) == [["s=a"]]


def test_no_claims_fit_everywhere() -> None:
    assert ask() == []


def test_an_earlier_request_gives_way_to_a_later_one() -> None:
    assert ask(
        claim(exactly("r", 1), exactly("s", 1, 'device.attributes["d"].g == 1'), exactly("t", 2, f"{G} == 2"))
    ) == [["r=a", "s=c", "t=b", "t=d"]]
    assert ask(claim(exactly("r", 1), exactly("s", 2, f"{G} == 1"))) == [["r=b", "s=a", "s=c"]]


def test_claims_of_one_pod_are_served_together_in_order() -> None:
    assert ask(claim(exactly("r", 1)), claim(exactly("r", 1), name="c2")) == [["r=a"], ["r=b"]]
    assert ask(claim(exactly("r", 1)), claim(exactly("r", 2, f"{G} == 1"), name="c2")) == [["r=b"], ["r=a", "r=c"]]
    assert ask(claim(exactly("r", 2)), claim(exactly("r", 3), name="c2")) is None


def test_devices_in_use_are_left_alone() -> None:
    assert ask(claim(exactly("r")), of=allocator(FOUR, allocated=(held("a", "b"),))) == [["r=c"]]


def test_admin_access_in_use_holds_nothing() -> None:
    assert ask(claim(exactly("r")), of=allocator(FOUR, allocated=(held("a", adminAccess=True),))) == [["r=a"]]


def test_all_devices_are_all_that_are_selected() -> None:
    assert ask(claim(exactly("r", "All", f"{G} == 2"))) == [["r=b", "r=d"]]


def test_all_devices_means_at_least_one() -> None:
    assert ask(claim(exactly("r", "All", f"{G} == 9"))) is None


def test_all_devices_are_not_given_while_one_is_in_use() -> None:
    assert ask(claim(exactly("r", "All")), of=allocator(FOUR, allocated=(held("d"),))) is None
    assert ask(claim(exactly("r"), exactly("s", "All"))) is None


def test_all_devices_together_may_not_break_a_constraint() -> None:
    with pytest.raises(AllAtOnceError, match=r"claim team/c, request r: asks for all devices, but device d/p/b breaks"):
        ask(claim(exactly("r", "All"), constraints=[match("d/g")]))


def test_another_choice_before_all_devices_is_tried() -> None:
    of = allocator(resource_slice(device("a", g=1), device("b", g=2, x=True), device("z", g=2)))
    asked = claim(
        exactly("one", 1, 'device.attributes["d"].?x.orValue(false) || device.attributes["d"].g == 1'),
        exactly("all", "All", 'device.attributes["d"].g == 2 && !device.attributes["d"].?x.orValue(false)'),
        constraints=[match("d/g")],
    )
    assert ask(asked, of=of) == [["one=b", "all=z"]]


def test_admin_access_reaches_devices_in_use() -> None:
    admin = claim(exactly("r", 1, adminAccess=True))
    assert ask(admin, of=allocator(FOUR, allocated=(held("a", "b", "c", "d"),))) == [["r=a"]]


def test_admin_access_gives_no_device_twice_to_one_claim() -> None:
    assert ask(claim(exactly("r", 1, adminAccess=True), exactly("s", 1, adminAccess=True))) == [["r=a", "s=b"]]
    one = allocator(resource_slice(device("a")))
    assert ask(claim(exactly("r"), exactly("s", 1, adminAccess=True)), of=one) is None


def test_admin_access_of_one_claim_leaves_the_device_to_another() -> None:
    one = allocator(resource_slice(device("a")))
    admin, plain = claim(exactly("r", 1, adminAccess=True)), claim(exactly("r"), name="c2")
    assert ask(plain, admin, of=one) == [["r=a"], ["r=a"]]
    assert ask(admin, plain, of=one) == [["r=a"], ["r=a"]]


def test_as_kube_scheduler_another_device_is_preferred_to_one_under_admin_access() -> None:
    assert ask(claim(exactly("r", 1, adminAccess=True)), claim(exactly("r"), name="c2")) == [["r=a"], ["r=b"]]


@pytest.mark.parametrize("counts", [(33,), (20, 13)], ids=["one-request", "together"])
def test_more_than_32_devices_a_claim_are_refused(counts: tuple[int, ...]) -> None:
    many = resource_slice(*(device(f"d{number}") for number in range(40)))
    with pytest.raises(AllocationError, match="claim team/c: asks for 33 devices, which exceeds the claim limit of 32"):
        ask(claim(*(exactly(f"r{index}", count) for index, count in enumerate(counts))), of=allocator(many))


def test_32_devices_a_claim_and_more_in_a_pod_are_fine() -> None:
    many = allocator(resource_slice(*(device(f"d{number}") for number in range(64))))
    answer = ask(claim(exactly("r", 32)), claim(exactly("r", 32), name="c2"), of=many)
    assert answer is not None
    assert [len(of_claim) for of_claim in answer] == [32, 32]


def test_alternatives_are_tried_in_order() -> None:
    two = {"name": "s0", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 5}
    one = two | {"name": "s1", "count": 1}
    assert ask(claim({"name": "r", "firstAvailable": [two, one]})) == [["r/s1=a"]]


def test_an_alternative_that_makes_the_claim_too_large_is_passed_over() -> None:
    many = allocator(resource_slice(*(device(f"d{number:02}") for number in range(64))))
    large = {"name": "s0", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 10}
    small = large | {"name": "s1", "count": 2}
    answer = ask(claim({"name": "r", "firstAvailable": [large, small]}, exactly("s", 30)), of=many)
    assert answer is not None
    assert answer[0][:2] == ["r/s1=d00", "r/s1=d01"]


def test_taints_keep_requests_away_that_do_not_tolerate_them() -> None:
    hot = device("a", extra={"taints": [{"key": "hot", "value": "x", "effect": "NoSchedule"}]})
    none = device("b", extra={"taints": [{"key": "hot", "value": "x", "effect": "None"}]})
    of = allocator(resource_slice(hot, none))
    assert ask(claim(exactly("r")), of=of) == [["r=b"]]
    assert ask(claim(exactly("r", 1, tolerations=[{"key": "hot", "operator": "Exists"}])), of=of) == [["r=a"]]
    assert ask(claim(exactly("r", 1, tolerations=[{"key": "hot", "operator": "Equal", "value": "y"}])), of=of) == [
        ["r=b"]
    ]


def test_counters_belong_to_the_drivers_pool() -> None:
    counters = [{"name": "s", "counters": {"m": {"value": "10"}}}]
    eight = {"consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "8"}}}]}
    slices = [
        resource_slice(*content, name=f"{driver}-{number}", driver=driver, count=2, **spec)
        for driver in ("d", "e")
        for number, (content, spec) in enumerate(
            (((device("a", extra=eight), device("b", extra=eight)), {}), ((), {"sharedCounters": counters}))
        )
    ]
    of = allocator(*slices)
    assert ask(claim(exactly("r", 2)), of=of) == [["r=a", "r=a"]]
    assert ask(claim(exactly("r", 3)), of=of) is None


def test_distinct_counts_values_and_not_devices() -> None:
    assert ask(claim(exactly("r", 2), constraints=[distinct("d/g")])) == [["r=a", "r=b"]]
    assert ask(claim(exactly("r", 3), constraints=[distinct("d/g")])) is None


def test_admin_access_takes_nothing_from_pairs() -> None:
    """Pairs that need every GPU under a switch, beside admin access to one of them; the first try fails."""
    devices = [device(f"{kind}{switch}", kind=kind, switch=switch) for kind in ("gpu", "nic") for switch in range(2)]
    spare = device("spare", kind="gpu", switch=2)
    gpu, nic = (f'device.attributes["d"].kind == "{kind}"' for kind in ("gpu", "nic"))
    requests = [exactly(f"{kind}-{pair}", 1, of) for pair in range(2) for kind, of in (("gpu", gpu), ("nic", nic))]
    pairs = claim(*requests, constraints=[match("d/switch", f"gpu-{pair}", f"nic-{pair}") for pair in range(2)])
    admin = claim(exactly("r", 1, f'{gpu} && device.attributes["d"].switch == 0', adminAccess=True), name="admin")
    found = ask(claim(exactly("r", 1, gpu), name="first"), pairs, admin, of=allocator(resource_slice(*devices, spare)))
    assert found == [["r=spare"], ["gpu-0=gpu0", "nic-0=nic0", "gpu-1=gpu1", "nic-1=nic1"], ["r=gpu0"]]
