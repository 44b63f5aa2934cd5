"""Isolation: what is the same for all strategies, and which one a share gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.errors import InputError
from driver.plan.isolation import IsolationHost
from tests.support.plan.shares import BARE, GIB, STRATEGIES, SUBJECT, env, plan, share, whole_gpu


def test_every_strategy_that_a_claim_can_name_has_one_provider() -> None:
    for strategy in STRATEGIES:
        assert plan(whole_gpu(), strategy=strategy).sharing.split()[0] == strategy


def test_a_whole_gpu_is_exclusive_and_a_share_takes_turns_where_the_claim_says_nothing() -> None:
    assert plan(whole_gpu()).sharing == "exclusive"
    assert plan(share(99)).sharing == "timeSlicing interval=Default"


def test_without_a_strategy_shares_work_on_a_node_that_has_nothing() -> None:
    for of in (share(), whole_gpu(), share(vendor="amd", uuid=None)):
        planned = plan(of, BARE)
        assert (planned.env, planned.mounts, planned.files, planned.effects) == ((), (), (), ())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_whole_gpu_is_isolated_by_being_the_claims_own_whatever_the_strategy(strategy: str) -> None:
    isolation = plan(whole_gpu(), strategy=strategy).isolation
    assert (isolation.enforced, isolation.by, isolation.version) == (True, "device", None)
    assert isolation.message == "the whole GPU is given to this claim: no other claim can have a share of it"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("whole", [True, False])
def test_a_simulated_host_has_all_that_a_strategy_takes(strategy: str, whole: bool) -> None:
    if whole or strategy != "exclusive":
        planned = plan(share(whole=whole, uuid=None), IsolationHost(simulated=True), strategy=strategy)
        assert planned.sharing.startswith(strategy)


def test_exclusive_does_not_fit_a_share() -> None:
    with pytest.raises(InputError) as error:
        plan(share(50), strategy="exclusive")
    assert str(error.value) == (
        f"{SUBJECT}: strategy exclusive does not fit a share of 50 % of the core and 20Gi of "
        "memory (leave out sharing.strategy, or leave out capacity.requests to get the whole GPU)"
    )


@pytest.mark.parametrize("strategy", ["timeSlicing", "mps", "hamiCore"])
def test_a_share_without_core_has_no_limit_of_it_and_says_so(strategy: str) -> None:
    planned = plan(share(0, 20 * GIB), strategy=strategy)
    assert not [name for name in env(planned) if "SM_LIMIT" in name or "THREAD" in name]
    assert "20Gi of memory" in planned.isolation.message
    assert "; no core reserved: its core is not limited" in planned.isolation.message
    assert planned.isolation.enforced is (strategy != "timeSlicing")


@given(
    core=st.integers(0, 100),
    memory=st.integers(2**20, 2**38),
    threads=st.none() | st.integers(1, 100),
    pinned=st.none() | st.integers(2**20, 2**39),
    policy=st.sampled_from(["default", "force", "disable"]),
)
def test_no_settings_give_a_share_more_than_it_has(
    core: int, memory: int, threads: int | None, pinned: int | None, policy: str
) -> None:
    of = share(core, memory)
    settings = {"activeThreadPercentage": threads, "pinnedDeviceMemoryLimit": pinned}
    try:
        by_mps = env(plan(of, strategy="mps", mps=settings))
    except InputError:
        assert (threads or 0) > (core or 100) or (pinned or 0) > memory
    else:
        assert core or threads or "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in by_mps
        assert 1 <= int(by_mps.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")) <= (core or 100)
        ordinal, limit = by_mps["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"].split("=")
        assert ordinal == "0"
        assert 0 < int(limit.removesuffix("M")) * 2**20 <= memory
    by_library = env(plan(of, strategy="hamiCore", hamiCore={"corePolicy": policy}))
    assert by_library.get("CUDA_DEVICE_SM_LIMIT") == (str(core) if core else None)
    assert int(by_library["CUDA_DEVICE_MEMORY_LIMIT"]) == memory
