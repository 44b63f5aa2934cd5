"""The engine ranks nodes for pods, whatever happened before."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.placement.engine import Engine
from driver.placement.mix import Mix
from driver.placement.outlook import Outlook
from driver.placement.policies import POLICIES, Choice
from driver.placement.policies.pack import Pack
from driver.placement.score import Score
from driver.placement.shapes import NodeShape, PodShape
from tests.support.placement_shapes import mixes, nodes, pods

EIGHT = NodeShape(96_000, 393_216 << 20, 110, "G2", (1000,) * 8)
WHOLE = PodShape(12_000, 16_384 << 20, 1, 1000)
SHARE = PodShape(6000, 12_288 << 20, 1, 460)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_node_without_room_is_no_candidate(policy):
    engine = Engine(policy, Mix.of([WHOLE, SHARE]))
    engine.put("full", NodeShape(96_000, 393_216 << 20, 110, "G2", (400, 0)))
    assert list(engine.ranked(SHARE)) == []
    engine.put("free", EIGHT)
    assert [candidate.node for candidate in engine.ranked(SHARE)] == ["free"]
    engine.put("free", None)
    assert list(engine.ranked(SHARE)) == []


def test_pack_gives_a_share_the_gpu_that_has_least_left():
    engine = Engine(POLICIES["pack"], Mix.of([WHOLE, SHARE]))
    engine.put("node", NodeShape(96_000, 393_216 << 20, 110, "G2", (1000, 1000, 540, 600)))
    assert next(engine.ranked(SHARE)).gpus == (2,)


def test_first_fit_takes_the_first_node_and_gpu():
    engine = Engine(POLICIES["first-fit"], Mix({}))
    for name in ("b", "a", "c"):
        engine.put(name, EIGHT)
    assert [(candidate.node, candidate.gpus) for candidate in engine.ranked(WHOLE)] == [
        ("a", (0,)),
        ("b", (0,)),
        ("c", (0,)),
    ]


def test_spread_takes_the_emptiest():
    engine = Engine(POLICIES["spread"], Mix({}))
    engine.put("a", EIGHT.after(SHARE, (0,)))
    engine.put("b", EIGHT)
    assert [(candidate.node, candidate.gpus) for candidate in engine.ranked(SHARE)] == [("b", (0,)), ("a", (1,))]


def test_pack_leaves_the_model_that_others_name():
    engine = Engine(POLICIES["pack"], Mix.of([WHOLE, WHOLE, replace(WHOLE, models=frozenset({"T4"}))]))
    engine.put("a", replace(EIGHT, model="T4"))
    engine.put("b", EIGHT)
    assert [candidate.node for candidate in engine.ranked(WHOLE)] == ["b", "a"]


def test_pack_does_not_strand_gpus_by_a_pod_that_needs_none():
    engine = Engine(POLICIES["pack"], Mix.of([WHOLE, SHARE]))
    engine.put("free", EIGHT)
    engine.put("full", replace(EIGHT, gpus=(0,) * 8))
    assert next(engine.ranked(PodShape(8000, 1 << 30, 0, 0))).node == "full"


@pytest.mark.parametrize("policy", [POLICIES["pack"], POLICIES["spread"]], ids=["pack", "spread"])
def test_the_term_of_what_decided_tells_why(policy):
    engine = Engine(policy, Mix.of([WHOLE, SHARE]))
    engine.put("a", EIGHT)
    engine.put("b", EIGHT.after(WHOLE, (0,)))
    engine.put("c", replace(EIGHT, gpus=(540, 540, 0, 0, 0, 0, 0, 0)))
    ranked = [candidate.score for candidate in engine.ranked(SHARE)]
    for better, worse in pairwise(ranked):
        decided = next(
            at for at, (mine, theirs) in enumerate(zip(better.key, worse.key, strict=True)) if mine != theirs
        )
        assert better.terms[decided].value < worse.terms[decided].value


ranking = st.sampled_from(sorted(POLICIES))
names = st.sampled_from([f"node-{number}" for number in range(6)])
steps = st.lists(st.tuples(names, nodes | st.none() | pods), max_size=12)


def order(engine: Engine, pod: PodShape) -> list[tuple[str, tuple[int, ...], Score]]:
    return [(candidate.node, candidate.gpus, candidate.score) for candidate in engine.ranked(pod)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(ranking, mixes, mixes, steps, st.lists(pods, min_size=1, max_size=3))
def test_whatever_happened_before_only_the_state_of_now_counts(policy, before, mix, steps, asked):
    engine = Engine(POLICIES[policy], before)
    left: dict[str, NodeShape] = {}
    for number, (name, step) in enumerate(steps):
        if number == 5:
            engine.renew(mix)
        if isinstance(step, PodShape):
            best = next(engine.ranked(step), None)
            if best is not None:
                assert left[best.node].fits(step)
                left[best.node] = left[best.node].after(step, best.gpus)
                assert min(left[best.node].gpus, default=0) >= 0
                engine.put(best.node, left[best.node])
        else:
            engine.put(name, step)
            left.pop(name, None)
            if step is not None:
                left[name] = step
    engine.renew(mix)
    for _ in range(2):
        anew = Engine(POLICIES[policy], Mix(dict(reversed(mix.weights.items()))))
        for name in sorted(left, reverse=True):
            anew.put(name, left[name])
        for pod in asked:
            assert order(engine, pod) == order(anew, pod)
        for name in list(left)[:1]:
            left[name] = replace(left[name], cpu_milli=left[name].cpu_milli + 1)
            engine.put(name, left[name])


@given(ranking, mixes, st.dictionaries(names, nodes), pods)
def test_just_the_nodes_that_fit_are_ranked_and_the_gpus_have_room(policy, mix, shapes, pod):
    engine = Engine(POLICIES[policy], mix)
    for name, shape in shapes.items():
        engine.put(name, shape)
    ranked = list(engine.ranked(pod))
    assert sorted(candidate.node for candidate in ranked) == sorted(n for n, shape in shapes.items() if shape.fits(pod))
    for candidate in ranked:
        assert len(set(candidate.gpus)) == pod.gpus
        assert sorted(candidate.gpus) == list(candidate.gpus)
        assert all(shapes[candidate.node].gpus[index] >= pod.gpu_milli for index in candidate.gpus)
        assert candidate.score.key == candidate.key


def test_more_kinds_of_pods_than_are_remembered():
    engine = Engine(POLICIES["pack"], Mix.of([WHOLE, SHARE]), most_ranked=4)
    for name in ("a", "b"):
        engine.put(name, EIGHT)
    for cpu in (1, 2, 3, 1, 2, 3):
        pod = replace(SHARE, cpu_milli=cpu)
        assert next(engine.ranked(pod)).node == "a"
    assert len(engine._rankings) == 2


class Counted(Pack):
    """Counts how many nodes are rated."""

    def __init__(self) -> None:
        self.rated = 0

    def choose(self, node: NodeShape, pod: PodShape, outlook: Outlook) -> Choice | None:
        self.rated += 1
        return super().choose(node, pod, outlook)


def test_only_nodes_that_changed_are_rated_again_and_equal_ones_once():
    policy = Counted()
    engine = Engine(policy, Mix.of([WHOLE, SHARE]))
    for number in range(100):
        engine.put(f"node-{number:03}", EIGHT)
    assert next(engine.ranked(WHOLE)).node == "node-000"
    assert policy.rated == 1
    engine.put("node-000", EIGHT.after(WHOLE, (0,)))
    engine.put("node-001", EIGHT)  # as it was
    engine.put("node-099", None)
    assert len(list(engine.ranked(WHOLE))) == 99
    assert policy.rated == 2


def test_gpus_of_a_named_model_that_come_or_go_change_the_ranks_of_others():
    named = replace(WHOLE, models=frozenset({"T4"}))
    engine = Engine(POLICIES["pack"], Mix.of([WHOLE, named]))
    engine.put("a", replace(EIGHT, model="T4"))
    engine.put("b", EIGHT)
    dear = next(c.score.key for c in engine.ranked(WHOLE) if c.node == "a")
    for number in range(20):
        engine.put(f"more-{number}", replace(EIGHT, model="T4"))
    assert next(c.score.key for c in engine.ranked(WHOLE) if c.node == "a") < dear
