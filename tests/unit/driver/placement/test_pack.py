"""What pack compares is what its parts define."""

from __future__ import annotations

import pytest
from hypothesis import given

from driver.placement.outlook import Outlook
from driver.placement.policies import POLICIES
from driver.placement.shapes import WHOLE_GPU
from tests.support.placement_shapes import mixes, nodes, pods

PACK = POLICIES["pack"]
STEP = 30


@given(mixes, nodes, pods)
def test_the_cost_is_the_room_lost_and_the_surcharge(mix, node, pod):
    outlook = Outlook(mix, {"T4": 2000, "G2": 9000, "A10": 1000, "": 500})

    def cost(gpus: tuple[int, ...]) -> float:
        surcharge = (outlook.price(node.model) - 1) * pod.gpus * pod.gpu_milli
        return outlook.room(node) - outlook.room(node.after(pod, gpus)) + surcharge

    choice = PACK.choose(node, pod, outlook)
    if choice is None:
        assert not node.fits(pod)
        return
    assert STEP * choice.key[0] == pytest.approx(cost(choice.gpus), abs=STEP / 2 + 1e-6)
    if pod.gpus == 1:
        for index, free in enumerate(node.gpus):
            if free >= pod.gpu_milli:
                assert cost((index,)) > cost(choice.gpus) - STEP - 1e-6
    terms = PACK.terms(node, pod, choice, outlook)
    assert WHOLE_GPU * terms[0].value == pytest.approx(cost(choice.gpus), abs=1e-6)


@given(mixes, nodes, pods)
def test_a_share_takes_the_fullest_gpu_of_those_that_cost_the_same(mix, node, pod):
    outlook = Outlook(mix, {})
    choice = PACK.choose(node, pod, outlook)
    if choice is not None and pod.gpus == 1:
        rooms = [node.gpus[index] for index in range(len(node.gpus)) if node.gpus[index] >= pod.gpu_milli]
        assert choice.key[2] == node.gpus[choice.gpus[0]]
        assert choice.gpus[0] == node.gpus.index(choice.key[2])
        if not mix.weights:
            assert choice.key[2] == min(rooms)
