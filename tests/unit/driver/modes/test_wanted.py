"""What a node should publish of each GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from driver.api.gpu_modes import GpuMode
from driver.api.gpu_policies import GpuPolicy
from driver.layout.conflicts import GpuModes
from driver.model.devices import DeviceName, Gpu
from driver.modes.gpu import GpuState, known_modes
from driver.modes.rule import Layout
from driver.modes.wanted import wanted
from tests.support.machines import gpu
from tests.support.mig_machines import H100, instance, mig_gpu

BUSES = ("1b", "43", "52", "61")


def modes_of(bus: str = "1b", *modes: GpuMode, card: Gpu | None = None) -> GpuModes:
    return known_modes(card or mig_gpu(bus, H100), GpuPolicy(modes=modes) if modes else GpuPolicy())


def partitions(of: GpuModes, names: Iterable[DeviceName]) -> frozenset[DeviceName]:
    return frozenset(name for name in names if of.mode_of(name) == "mig")


def named(of: GpuModes, *texts: str) -> frozenset[DeviceName]:
    """Short names to names: ``gpu``, ``gpu-ratio``, ``mig`` for all partitions, or one as ``1g-10gb-4``."""
    bus = of.gpu.removeprefix("gpu-")
    names: set[DeviceName] = set()
    for text in texts:
        if text == "mig":
            names |= partitions(of, of.possible)
        else:
            names.add(DeviceName(f"{text}-{bus}" if text.startswith("gpu") else f"mig-{bus}-{text}"))
    return frozenset(names)


def state(of: GpuModes, opened: str = "", closed: str = "", in_use: str = "", wish: str = "") -> GpuState:
    return GpuState(
        modes=of,
        opened=named(of, *opened.split()),
        closed=named(of, *closed.split()),
        in_use=named(of, *in_use.split()),
        wish=named(of, *wish.split()),
    )


@pytest.mark.parametrize("modes", [("gpu", "gpu-ratio", "mig"), ("gpu",), ("mig", "gpu-ratio")])
@pytest.mark.parametrize("in_use", ["", "gpu", "1g-10gb-0"])
def test_full_wants_what_the_policies_offer_whatever_is_in_use(modes: tuple[GpuMode, ...], in_use: str) -> None:
    of = modes_of("1b", *modes)
    assert wanted(Layout.FULL, [state(of, in_use=in_use)]) == {of.gpu: frozenset(of.names)}


# One placement of each profile, the one that leaves most room.
ONE_OF_EACH = "1g-10gb-6 1g-10gb-me-6 1g-20gb-6 2g-20gb-4 3g-40gb-4 4g-40gb-0 7g-80gb-0"
ALL_MODES = f"gpu gpu-ratio {ONE_OF_EACH}"


# Per GPU in the order of allocation: what is open, what is in use, and what is wanted.
@pytest.mark.parametrize(
    ("gpus", "ahead"),
    [
        pytest.param([("", "", "gpu")] * 3 + [("", "", ALL_MODES)], 1, id="new-node: the last one"),
        pytest.param([("", "", "gpu")] * 2 + [("", "", ALL_MODES)] * 2, 2, id="two-ahead"),
        pytest.param([("", "", "gpu")] * 4, 0, id="none-ahead"),
        pytest.param([("", "", ALL_MODES)] * 2, 5, id="more-ahead-than-there-are"),
        pytest.param(
            [("gpu", "", "gpu"), (ALL_MODES, "", ALL_MODES), ("gpu", "", "gpu")], 1, id="what-is-published-already"
        ),
        pytest.param([("gpu gpu-ratio mig", "", ALL_MODES), ("gpu", "", "gpu")], 1, id="after-full: one is enough"),
        pytest.param([(ALL_MODES, "", "gpu"), (ALL_MODES, "", ALL_MODES)], 1, id="one-too-many: the last one stays"),
        pytest.param(
            [("gpu", "", "gpu"), ("gpu", "", ALL_MODES), (ALL_MODES, "1g-10gb-6", "mig")], 1,
            id="the-last-is-partitioned: all its partitions, and the one before it",
        ),
        pytest.param(
            [("gpu", "", ALL_MODES), (ALL_MODES, "gpu", "gpu"), ("mig", "1g-10gb-6 3g-40gb-0", "mig")], 1,
            id="the-last-is-given-whole",
        ),
        pytest.param([("gpu", "gpu", "gpu"), (ALL_MODES, "gpu-ratio", "gpu-ratio")], 1, id="none-is-free"),
        pytest.param([("gpu", "1g-10gb-0", "mig"), ("gpu", "gpu", "gpu")], 1, id="unpublished-but-in-use"),
    ],
)  # fmt: skip
def test_lean_wants_the_mode_in_use_or_the_first_one_and_all_modes_of_some(
    gpus: list[tuple[str, str, str]], ahead: int
) -> None:
    of = [modes_of(bus) for bus, _ in zip(BUSES, gpus, strict=False)]
    states = [state(item, opened=opened, in_use=in_use) for item, (opened, in_use, _) in zip(of, gpus, strict=True)]
    found = wanted(Layout.LEAN, states, mig_gpus_ahead=ahead)
    for item, (_, _, expected) in zip(of, gpus, strict=True):
        assert found[item.gpu] == named(item, *expected.split())


def test_lean_needs_no_counters_for_what_is_neither_ahead_nor_partitioned() -> None:
    of = [modes_of(bus) for bus in BUSES]
    found = wanted(Layout.LEAN, [state(of[0], in_use="gpu"), state(of[1], in_use="gpu-ratio"), *map(state, of[2:])])
    assert [item.fit(found[item.gpu]) for item in of] == [True, True, True, False]


def test_lean_takes_nothing_away_from_a_free_gpu_unless_it_may() -> None:
    of = [modes_of(bus) for bus in BUSES]
    states = [state(item, opened="gpu gpu-ratio mig") for item in of]
    kept = wanted(Layout.LEAN, states, may_drop=False)
    assert kept == {item.gpu: frozenset(item.possible) for item in of}
    states = [state(item, opened="gpu gpu-ratio", closed="mig") for item in of]
    found = wanted(Layout.LEAN, states, may_drop=False)
    assert [bool(partitions(item, found[item.gpu])) for item in of] == [False, False, False, True]  # closed go on


def test_lean_follows_a_wish() -> None:
    of = [modes_of(bus) for bus in BUSES]
    found = wanted(Layout.LEAN, [state(of[0], wish="7g-80gb-0 1g-10gb-2"), *map(state, of[1:])])
    assert found[of[0].gpu] == named(of[0], "gpu", "7g-80gb-0", "1g-10gb-2")


def test_lean_does_not_count_on_an_unhealthy_gpu() -> None:
    of = [modes_of(bus) for bus in BUSES]
    states = [*map(state, of[:3]), replace(state(of[3], opened="mig"), is_healthy=False)]
    found = wanted(Layout.LEAN, states)
    assert [bool(partitions(item, found[item.gpu])) for item in of] == [False, False, True, False]


def test_lean_publishes_a_gpu_in_the_only_mode_that_it_has() -> None:
    only_mig = modes_of("1b", "mig")
    static = modes_of(card=mig_gpu("43", H100, instance(9, 0, 4), instance(19, 6, 1)))
    by_percent = modes_of("52", "gpu-ratio", card=gpu("52", memory_bytes=80 << 30))
    found = wanted(Layout.LEAN, [state(only_mig), state(static), state(by_percent)], mig_gpus_ahead=0)
    assert found == {
        only_mig.gpu: named(only_mig, *ONE_OF_EACH.split()),
        static.gpu: frozenset(static.possible),
        by_percent.gpu: named(by_percent, "gpu-ratio"),
    }


@pytest.mark.parametrize(
    ("modes", "now", "expected"),
    [
        pytest.param(("gpu", "mig"), {}, "gpu", id="new: the first mode"),
        pytest.param(("gpu-ratio", "gpu"), {}, "gpu-ratio", id="new: the first mode is by percent"),
        pytest.param(("mig", "gpu"), {}, "1g-10gb-" + " 1g-10gb-".join("6450123"), id="new: partitions that fit"),
        pytest.param(("gpu", "mig"), {"opened": "2g-20gb-4"}, "2g-20gb-4", id="what-is-published-stays"),
        pytest.param(("gpu", "mig"), {"opened": "gpu mig"}, "gpu", id="after-full: the first mode"),
        pytest.param(("gpu",), {"opened": "2g-20gb-4"}, "gpu", id="the-policy-has-taken-it-away"),
        pytest.param(("gpu", "mig"), {"opened": "gpu", "wish": "3g-40gb-4"}, "3g-40gb-4", id="a-wish"),
        pytest.param(("gpu",), {"opened": "gpu", "wish": "3g-40gb-4"}, "gpu", id="a-wish-the-policies-do-not-offer"),
        pytest.param(("gpu", "mig"), {"closed": "gpu", "wish": "3g-40gb-4"}, "3g-40gb-4", id="a-wish-under-way"),
        pytest.param(("gpu", "mig"), {"closed": "2g-20gb-4"}, "2g-20gb-4", id="a-wish-taken-back"),
        pytest.param(
            ("gpu", "mig"), {"opened": "1g-10gb-0 1g-10gb-5", "wish": "3g-40gb-4"}, "1g-10gb-0 3g-40gb-4",
            id="a-wish-beside-what-fits",
        ),
        pytest.param(("gpu", "mig"), {"opened": "gpu", "in_use": "gpu", "wish": "3g-40gb-4"}, "gpu", id="use-wins"),
        pytest.param(
            ("gpu", "mig"), {"opened": "gpu mig", "in_use": "3g-40gb-4"},
            "3g-40gb-4 1g-10gb-0 1g-10gb-1 1g-10gb-2 1g-10gb-3", id="after-full: beside-what-is-in-use",
        ),
        pytest.param(
            ("gpu", "mig"), {"opened": "3g-40gb-4", "in_use": "3g-40gb-4", "wish": "4g-40gb-0 7g-80gb-0"},
            "3g-40gb-4 4g-40gb-0", id="a-wish-beside-use",
        ),
        pytest.param(("gpu",), {"opened": "2g-20gb-4", "in_use": "2g-20gb-4"}, "", id="in-use-but-taken-away"),
        pytest.param(("gpu", "mig"), {"opened": "gpu", "in_use": "gpu 1g-10gb-0"}, "", id="given-twice"),
    ],
)  # fmt: skip
def test_one_wants_one_mode(modes: tuple[GpuMode, ...], now: dict[str, str], expected: str) -> None:
    of = modes_of("1b", *modes)
    assert wanted(Layout.ONE, [state(of, **now)]) == {of.gpu: named(of, *expected.split())}


def test_one_wants_all_of_a_static_layout() -> None:
    of = modes_of(card=mig_gpu("1b", H100, instance(9, 0, 4), instance(9, 4, 4)))
    assert wanted(Layout.ONE, [state(of)]) == {of.gpu: frozenset(of.possible)}
