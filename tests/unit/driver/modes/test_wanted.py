"""What a node should publish of each GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.api.gpu_policies import GpuMode, GpuPolicy
from driver.layout.conflicts import GpuModes
from driver.model.devices import DeviceName, Gpu
from driver.modes.gpu import GpuState, known_modes, partitions_of
from driver.modes.rule import Layout
from driver.modes.wanted import wanted
from tests.support.machines import gpu
from tests.support.mig_machines import H100, instance, mig_gpu

BUSES = ("1b", "43", "52", "61")


def modes_of(bus: str = "1b", *modes: GpuMode, card: Gpu | None = None) -> GpuModes:
    return known_modes(card or mig_gpu(bus, H100), GpuPolicy(modes=modes) if modes else GpuPolicy())


def named(of: GpuModes, *texts: str) -> frozenset[DeviceName]:
    """Short names to names: ``gpu``, ``gpu-ratio``, ``mig`` for all partitions, or one as ``1g-10gb-4``."""
    bus = of.gpu.removeprefix("gpu-")
    names: set[DeviceName] = set()
    for text in texts:
        if text == "mig":
            names |= partitions_of(of, of.possible)
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


# Per GPU in the order of allocation: what is open and what is in use; and the GPUs of which partitions are wanted.
@pytest.mark.parametrize(
    ("gpus", "ahead", "expected"),
    [
        pytest.param([("", "")] * 4, 1, "3", id="new-node: the last one"),
        pytest.param([("", "")] * 4, 2, "23", id="two-ahead"),
        pytest.param([("", "")] * 4, 0, "", id="none-ahead"),
        pytest.param([("", "")] * 2, 5, "01", id="more-ahead-than-there-are"),
        pytest.param([("", ""), ("mig", ""), ("", ""), ("", "")], 1, "1", id="what-is-published-already"),
        pytest.param([("mig", ""), ("mig", ""), ("", ""), ("", "")], 1, "1", id="one-too-many: the last one stays"),
        pytest.param([("", ""), ("", ""), ("", ""), ("mig", "1g-10gb-0")], 1, "23", id="the-last-is-partitioned"),
        pytest.param([("", "gpu"), ("", ""), ("", ""), ("mig", "gpu")], 1, "2", id="the-last-is-given-whole"),
        pytest.param([("", "gpu"), ("", "gpu-ratio"), ("", "gpu"), ("mig", "gpu")], 1, "", id="none-is-free"),
        pytest.param([("", "gpu"), ("", "1g-10gb-0"), ("", "gpu"), ("", "gpu")], 1, "1", id="unpublished-but-in-use"),
    ],
)
def test_lean_wants_partitions_of_some(gpus: list[tuple[str, str]], ahead: int, expected: str) -> None:
    of = [modes_of(bus) for bus, _ in zip(BUSES, gpus, strict=False)]
    states = [
        state(item, opened=f"gpu gpu-ratio {opened}", in_use=in_use)
        for item, (opened, in_use) in zip(of, gpus, strict=True)
    ]
    found = wanted(Layout.LEAN, states, mig_gpus_ahead=ahead)
    for number, item in enumerate(of):
        partitions = ["mig"] if str(number) in expected else []
        assert found[item.gpu] == named(item, "gpu", "gpu-ratio", *partitions), number


def test_lean_takes_nothing_away_unless_it_may() -> None:
    of = [modes_of(bus) for bus in BUSES]
    states = [state(item, opened="gpu gpu-ratio mig") for item in of]
    kept = wanted(Layout.LEAN, states, may_drop=False)
    assert kept == {item.gpu: frozenset(item.possible) for item in of}
    states = [state(item, opened="gpu gpu-ratio", closed="mig") for item in of]
    found = wanted(Layout.LEAN, states, may_drop=False)
    assert [bool(partitions_of(item, found[item.gpu])) for item in of] == [False, False, False, True]  # closed go on


def test_lean_follows_a_wish() -> None:
    of = [modes_of(bus) for bus in BUSES]
    found = wanted(Layout.LEAN, [state(of[0], wish="7g-80gb-0"), *map(state, of[1:])])
    assert found[of[0].gpu] == frozenset(of[0].possible)


def test_lean_does_not_count_on_an_unhealthy_gpu() -> None:
    of = [modes_of(bus) for bus in BUSES]
    states = [*map(state, of[:3]), replace(state(of[3], opened="mig"), is_healthy=False)]
    found = wanted(Layout.LEAN, states)
    assert [bool(partitions_of(item, found[item.gpu])) for item in of] == [False, False, True, False]


def test_lean_publishes_a_gpu_in_partitions_alone_where_it_is_offered_so() -> None:
    only_mig = modes_of("1b", "mig")
    static = modes_of(card=mig_gpu("43", H100, instance(9, 0, 4)))
    without = modes_of(card=gpu("52", memory_bytes=80 << 30))
    found = wanted(Layout.LEAN, [state(only_mig), state(static), state(without)], mig_gpus_ahead=0)
    assert found == {
        only_mig.gpu: frozenset(only_mig.names),
        static.gpu: frozenset(static.possible),
        without.gpu: frozenset(without.possible),
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
