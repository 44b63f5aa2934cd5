from __future__ import annotations

from controller.modes.wishes import Wishes
from driver.model.devices import DeviceName

_GPU = DeviceName("gpu-0000-0a-00-0")
_OTHER = DeviceName("gpu-0000-0b-00-0")
_RATIO = frozenset({DeviceName("gpu-ratio-0000-0a-00-0")})
_WHOLE = frozenset({_GPU})


def test_a_node_has_no_wishes_until_some_are_set():
    assert Wishes().of("node-a") == {}


def test_the_wishes_of_a_node_are_those_that_were_set_last():
    wishes = Wishes()
    wishes.set({"node-a": {_GPU: _RATIO}, "node-b": {_GPU: _WHOLE}})
    wishes.set({"node-a": {_GPU: _WHOLE, _OTHER: _RATIO}})
    assert wishes.of("node-a") == {_GPU: _WHOLE, _OTHER: _RATIO}
    assert wishes.of("node-b") == {}


def test_nodes_are_enqueued_whose_wishes_are_new_changed_or_gone():
    enqueued: list[str] = []
    wishes = Wishes(enqueued.append)
    wishes.set({"kept": {_GPU: _RATIO}, "changed": {_GPU: _RATIO}, "gone": {_GPU: _RATIO}})
    assert sorted(enqueued) == ["changed", "gone", "kept"]
    enqueued.clear()
    wishes.set({"kept": {_GPU: _RATIO}, "changed": {_GPU: _WHOLE}, "new": {_GPU: _RATIO}})
    assert enqueued == ["changed", "gone", "new"]


def test_a_node_without_a_gpu_in_its_wishes_is_not_enqueued():
    enqueued: list[str] = []
    Wishes(enqueued.append).set({"node-a": {}})
    assert enqueued == []


def test_who_set_the_wishes_cannot_change_them_afterwards():
    mine = {_GPU: _RATIO}
    wishes = Wishes()
    wishes.set({"node-a": mine})
    mine[_GPU] = _WHOLE
    assert wishes.of("node-a") == {_GPU: _RATIO}
