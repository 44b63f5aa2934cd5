"""Which devices of a slice a demand's CEL selectors select, evaluated once per distinct slice.

Selectors see nothing but the driver's name and the device, so an answer holds for every node that publishes the very
same devices (simulated nodes of one kind do), whoever asks.

An expression that fails does so only where the search comes to the device, as in Kubernetes (isSelectable in
k8s.io/dynamic-resource-allocation v0.36.3, allocator_incubating.go): a claim that is satisfied before gets no error.
So a failure is an answer about one device like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from driver.allocator.demands import Demand
from driver.allocator.features import Features
from driver.allocator.view import SliceDevices
from driver.api.resource_v1 import Device
from driver.cel import compile_selector
from driver.errors import InputError

if TYPE_CHECKING:
    from driver.cel import Selector

__all__ = ["Selection", "SelectionFailure", "Selections"]


@dataclass(frozen=True, slots=True)
class SelectionFailure:
    """A selector could not be evaluated for a device.

    Attributes:
        by_class: It is a selector of the class; otherwise of the request.
        index: Its place there.
        error: What is wrong.
    """

    by_class: bool
    index: int
    error: InputError


Selection = tuple[tuple[int, SelectionFailure | None], ...]
"""The devices of a slice that are selected, and those for which nobody can tell: (place in the slice, failure)."""

_REMEMBERED: Final = 200_000
"""Answers, one for each slice and the selectors asked about it: dozens of kinds of claims on thousands of nodes."""

_Key = tuple[tuple[str, ...], tuple[str, ...], str, int]


class Selections:
    """Evaluates selectors and remembers the answers."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._compiled: dict[str, Selector | InputError] = {}
        # The devices are kept with the answer, so that their id stays theirs.
        self._known: dict[_Key, tuple[Selection, tuple[Device, ...]]] = {}
        self._same: dict[Selection, Selection] = {}

    def of(self, demand: Demand, part: SliceDevices) -> Selection:
        """The devices of ``part`` that ``demand`` and its class select, in order."""
        key = (demand.class_selectors, demand.selectors, part.driver, id(part.source))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
                self._same.clear()
            selected = tuple(self._select(demand, part))
            # Slices of nodes of one kind have equal answers: they share one object.
            known = self._known[key] = (self._same.setdefault(selected, selected), part.source)
        return known[0]

    def _select(self, demand: Demand, part: SliceDevices) -> list[tuple[int, SelectionFailure | None]]:
        selected: list[tuple[int, SelectionFailure | None]] = []
        for place, device in enumerate(part.source):
            if device.binding_conditions and not self._features.device_binding_and_status:
                continue
            answer = self._answer(demand, part.driver, device)
            if answer is not False:
                selected.append((place, None if answer is True else answer))
        return selected

    def _answer(self, demand: Demand, driver: str, device: Device) -> bool | SelectionFailure:
        """Class selectors first; the first one that is not true decides."""
        for by_class, expressions in ((True, demand.class_selectors), (False, demand.selectors)):
            for index, expression in enumerate(expressions):
                try:
                    if not self._selector(expression).matches(driver, device):
                        return False
                except InputError as error:
                    return SelectionFailure(by_class=by_class, index=index, error=error)
        return True

    def _selector(self, expression: str) -> Selector:
        selector = self._compiled.get(expression)
        if selector is None:
            try:
                selector = compile_selector(expression, list_attributes=self._features.list_type_attributes)
            except InputError as error:
                selector = error
            self._compiled[expression] = selector
        if isinstance(selector, InputError):
            raise selector
        return selector
