"""Which counters a GPU with MIG partitions needs: against trying every combination of partitions."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.layout.counters import mig_counters
from driver.model.devices import MigPlacement, MigProfile
from driver.model.parts import MigPartition, gpu_parts
from tests.support.mig_machines import mig_gpu

ENGINES = st.integers(0, 3)


@st.composite
def profiles(draw: st.DrawFn) -> tuple[MigProfile, ...]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 3))
        starts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
        made.append(
            MigProfile(
                name=f"{number}g.1gb",
                profile_id=number,
                compute_slices=draw(ENGINES),
                memory_bytes=1 << 30,
                max_instances=draw(st.integers(1, 3)),
                placements=tuple(MigPlacement(start=start, size=size) for start in starts),
                decoders=draw(ENGINES),
                ofa_engines=draw(st.integers(0, 1)),
            )
        )
    return tuple(made)


def fits(chosen: tuple[MigPartition, ...], totals: dict[str, int], amounts: list[dict[str, int]]) -> bool:
    return all(sum(amount.get(name, 0) for amount in amounts) <= total for name, total in totals.items())


@settings(max_examples=80, deadline=None)
@given(profiles())
def test_what_the_counters_allow_is_what_the_gpu_has(given_profiles: tuple[MigProfile, ...]) -> None:
    partitions = [part for part in gpu_parts(mig_gpu("0a", given_profiles)) if isinstance(part, MigPartition)]
    counters = mig_counters(partitions)

    # What NVML vouches for: as many instances of one profile as fit would have as much.
    def most(field: str) -> int:
        return max(getattr(one, field) * one.max_instances for one in given_profiles)

    fields = ("compute_slices", "decoders", "ofa_engines")
    for count in range(1, 5):
        for chosen in itertools.combinations(partitions, count):
            covered = [
                n for one in chosen for n in range(one.placement.start, one.placement.start + one.placement.size)
            ]
            possible = (
                len(set(covered)) == len(covered)
                and all(sum(getattr(one.profile, field) for one in chosen) <= most(field) for field in fields)
                and all(
                    sum(one.profile is kind for one in chosen) <= kind.max_instances for kind in given_profiles
                )
            )  # fmt: skip
            assert fits(chosen, dict(counters.totals), [counters.of_partition(one) for one in chosen]) == possible


@settings(max_examples=60, deadline=None)
@given(profiles())
def test_no_counter_beside_the_memory_slices_is_without_use(given_profiles: tuple[MigProfile, ...]) -> None:
    """Without it, and with those before it, some partitions would be given together that the GPU cannot have."""
    partitions = [part for part in gpu_parts(mig_gpu("0a", given_profiles)) if isinstance(part, MigPartition)]
    counters = mig_counters(partitions)
    extra = [name for name in counters.totals if not name[1:].isdigit()]
    for position, name in enumerate(extra):
        others = {key: total for key, total in counters.totals.items() if key not in extra[position:]}
        assert any(
            fits(chosen, others, amounts) and not fits(chosen, {name: counters.totals[name]}, amounts)
            for count in range(1, 6)
            for chosen in itertools.combinations(partitions, count)
            for amounts in [[counters.of_partition(one) for one in chosen]]
        )
