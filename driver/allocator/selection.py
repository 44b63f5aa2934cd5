"""Selects devices of a slice by a demand's CEL selectors, which are evaluated once per distinct slice.

Selectors see nothing but the driver's name and the device, so an answer holds for every node that publishes the very
same devices (simulated nodes of one kind do), whoever asks; and mostly nothing but a few attributes, so that it holds
for every slice whose devices agree in these, whatever their UUIDs.

An expression that fails does so only where the search comes to the device, as in Kubernetes (isSelectable in
k8s.io/dynamic-resource-allocation v0.37.2, allocator_incubating.go): a claim that is satisfied before gets no error.
So a failure is an answer about one device like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from driver.allocator.demands import Demand
from driver.allocator.features import Features
from driver.allocator.view import Column, SliceDevices
from driver.api.resource_v1 import Device
from driver.budget import check
from driver.cel import CelLimitError, compile_selector
from driver.errors import InputError
from driver.memo import Memo

if TYPE_CHECKING:
    from driver.cel import Read, Selector

__all__ = ["Selection", "SelectionFailure", "Selections"]


@dataclass(frozen=True, slots=True)
class SelectionFailure:
    """A selector could not be evaluated for a device.

    Attributes:
        by_class: Whether it is a selector of the class; otherwise it is one of the request.
        index: Its place there.
        error: What is wrong.
    """

    by_class: bool
    index: int
    error: InputError


Selection = tuple[tuple[int, SelectionFailure | None], ...]
"""The devices of a slice that are selected, and those for which it is not known: (place in the slice, failure)."""

_REMEMBERED: Final = 200_000
"""Answers, one for each slice and the selectors asked about it: dozens of kinds of claims on thousands of nodes."""

_ALIKE: Final = 16_384
"""Answers for slices that agree in what is read."""

_LENGTH_OF_ALL: Final = 64 * 1024
"""Characters of the selectors that are kept compiled: some 15 MiB at most."""

_COMPILING_S: Final = 10e-6
_EVALUATING_S: Final = 2e-6
"""How long a character takes to compile, and a unit of cost to evaluate, at worst."""
_LONGEST_AHEAD_S: Final = 0.1
"""An evaluation hardly ever costs what it may cost at worst."""

_Key = tuple[tuple[str, ...], tuple[str, ...], str, int]


class Selections:
    """Evaluates selectors and remembers the answers."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._compiled: dict[str, Selector | InputError] = {}
        self._length = 0
        # Keys have ids of objects; those are kept beside the result, so that no other object gets their ids.
        self._known: Memo[_Key, tuple[Selection, tuple[Device, ...]]] = Memo(_REMEMBERED)
        self._same: Memo[Selection, Selection] = Memo(_REMEMBERED)
        # Slices that agree in all that is read share an answer, and the values that they agree in.
        self._reads: Memo[tuple[tuple[str, ...], tuple[str, ...]], tuple[Read, ...] | None] = Memo(_ALIKE)
        self._columns: Memo[tuple[object, ...], Column] = Memo(_ALIKE)
        self._same_parts: Memo[tuple[int, ...], tuple[Column, Sequence[object]]] = Memo(_ALIKE)
        self._by_columns: Memo[tuple[object, ...], Selection] = Memo(_ALIKE)

    def compile(self, demand: Demand) -> None:
        """Compile the selectors of a demand, which may take longer than evaluating them for a node."""
        for expression in (*demand.class_selectors, *demand.selectors):
            with suppress(InputError):  # an answer, when a device is asked about
                self._selector(expression)

    def of(self, demand: Demand, part: SliceDevices) -> Selection:
        """Return the devices of ``part`` that ``demand`` and its class select, in order."""
        key = (demand.class_selectors, demand.selectors, part.driver, id(part.source))
        known = self._known.get(key)
        if known is None:
            selected = self._by_values(demand, part)
            if not _is_known(selected):
                return selected
            # Slices of nodes of one kind have equal answers: they share one object.
            known = self._known.put(key, (self._same.of(selected, lambda: selected), part.source))
        return known[0]

    def _by_values(self, demand: Demand, part: SliceDevices) -> Selection:
        reads = self._reads_of(demand)
        if reads is None or not self._is_plain(part):
            return tuple(self._select(demand, part))
        columns = [part.read.get(read) or self._column(read, part) for read in reads]
        key = (demand.class_selectors, demand.selectors, part.driver, len(part.source), *columns)
        known = self._by_columns.get(key)
        if known is None:
            known = tuple(self._select(demand, part))
            if _is_known(known):
                self._by_columns.put(key, known)
        return known

    def _reads_of(self, demand: Demand) -> tuple[Read, ...] | None:
        """Return what all selectors of a demand read; None where one depends on a device as a whole."""
        key = (demand.class_selectors, demand.selectors)
        return self._reads.of(key, lambda: self._reads_of_all((*demand.class_selectors, *demand.selectors)))

    def _reads_of_all(self, expressions: Sequence[str]) -> tuple[Read, ...] | None:
        found: set[Read] = set()
        for expression in expressions:
            try:
                reads = self._selector(expression).reads
            except InputError:
                continue  # fails for all devices alike
            if reads is None:
                return None
            found.update(reads)
        return tuple(sorted(found))

    def _is_plain(self, part: SliceDevices) -> bool:
        """Whether selectors see nothing of the slice's devices but what they read."""
        if part.plain is None:
            from driver.cel.selector import are_plain  # noqa: PLC0415 - loads cel-python

            binding = not self._features.device_binding_and_status and any(
                device.binding_conditions for device in part.source
            )
            part.plain = not binding and are_plain(part.source)
        return part.plain

    def _column(self, read: Read, part: SliceDevices) -> Column:
        from driver.cel.selector import read_parts, read_value  # noqa: PLC0415 - loads cel-python

        parts = read_parts(read, part.driver, part.source)
        same = tuple(map(id, parts))
        known = self._same_parts.get(same)
        if known is None:
            values = tuple([read_value(read, part.driver, device) for device in part.source])
            known = self._same_parts.put(same, (self._columns.of(values, lambda: Column(values)), parts))
        part.read[read] = known[0]
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
        """Evaluate class selectors first; the first one that is not true decides."""
        for by_class, expressions in ((True, demand.class_selectors), (False, demand.selectors)):
            for index, expression in enumerate(expressions):
                try:
                    selector = self._selector(expression)
                    check(min(selector.cost * _EVALUATING_S, _LONGEST_AHEAD_S))
                    if not selector.matches(driver, device):
                        return False
                except InputError as error:
                    return SelectionFailure(by_class=by_class, index=index, error=error)
        return True

    def _selector(self, expression: str) -> Selector:
        selector = self._compiled.get(expression)
        if selector is None:
            check(len(expression) * _COMPILING_S)
            self._length += len(expression)
            if self._length > _LENGTH_OF_ALL:
                self._compiled.clear()
                self._length = len(expression)
            try:
                selector = compile_selector(expression, stored=True)
            except InputError as error:
                selector = error
            self._compiled[expression] = selector
        if isinstance(selector, InputError):
            raise selector
        return selector


def _is_known(selection: Selection) -> bool:
    """Whether no evaluation was stopped; of one that was, the selector knows whether to try again."""
    return not any(failure is not None and isinstance(failure.error, CelLimitError) for _, failure in selection)
