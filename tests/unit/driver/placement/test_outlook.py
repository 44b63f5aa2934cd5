"""The outlook tells how sought after models are, and the room that typical pods find."""

from __future__ import annotations

import pytest

from driver.placement.mix import Mix
from driver.placement.outlook import Outlook
from driver.placement.shapes import NodeShape, PodShape

ANY = PodShape(1, 1, 1, 1000)
T4 = PodShape(1, 1, 1, 1000, frozenset({"T4"}))
T4_OR_G2 = PodShape(1, 1, 1, 1000, frozenset({"T4", "G2"}))
SUPPLY = {"T4": 1000, "G2": 2000, "G3": 1000}


@pytest.mark.parametrize(
    ("pods", "prices"),
    [
        ([ANY, ANY], {"T4": 1, "G2": 1, "G3": 1}),
        ([ANY, T4], {"T4": 2.5, "G2": 0.5, "G3": 0.5}),
        ([T4_OR_G2], {"T4": 4 / 3, "G2": 4 / 3, "G3": 0}),
        ([], {"T4": 1, "G2": 1, "G3": 1}),
        ([PodShape(1, 1, 0, 0)], {"T4": 1, "G2": 1, "G3": 1}),
    ],
    ids=["no pod asks for one", "half ask for a quarter of the GPUs", "one of two", "no pods", "pods without GPUs"],
)
def test_a_model_s_price_is_demand_for_it_by_what_there_is(pods, prices):
    outlook = Outlook(Mix.of(pods), SUPPLY)
    assert {model: outlook.price(model) for model in SUPPLY} == pytest.approx(prices)


def test_the_mean_price_is_one():
    outlook = Outlook(Mix.of([ANY, T4, T4, T4_OR_G2]), SUPPLY)
    mean = sum(outlook.price(model) * milli for model, milli in SUPPLY.items()) / sum(SUPPLY.values())
    assert mean == pytest.approx(1)


def test_a_model_that_does_not_exist_costs_nobody_anything():
    outlook = Outlook(Mix.of([PodShape(1, 1, 1, 1000, frozenset({"H100"}))]), SUPPLY)
    assert outlook.price("T4") == 0
    assert outlook.price("H100") == 1


def test_room_is_what_is_neither_fragmented_nor_stranded():
    outlook = Outlook(Mix.of([PodShape(2, 0, 1, 1000)]), {"T4": 4000})
    # 200 are on a GPU too full for a whole one; of 3200, CPU for three pods and a half is more than enough.
    assert outlook.room(NodeShape(7, 0, 10, "T4", (200, 1000, 1000, 1000))) == 3000
    # CPU for one pod: 2200 are stranded, and 200 are fragmented as well.
    assert outlook.room(NodeShape(2, 0, 10, "T4", (200, 1000, 1000, 1000))) == 800
