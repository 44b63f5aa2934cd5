"""Which devices of a slice a demand's CEL selectors select, evaluated once per distinct slice.

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

if TYPE_CHECKING:
    from driver.cel import Read, Selector

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
        # The devices are kept with the answer, so that their id stays theirs.
        self._known: dict[_Key, tuple[Selection, tuple[Device, ...]]] = {}
        self._same: dict[Selection, Selection] = {}
        # Slices that agree in all that is read share an answer, and the values that they agree in.
        self._reads: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Read, ...] | None] = {}
        self._columns: dict[tuple[object, ...], Column] = {}
        self._same_parts: dict[tuple[int, ...], tuple[Sequence[object], Column]] = {}  # kept, for their ids
        self._by_columns: dict[tuple[object, ...], Selection] = {}

    def compile(self, demand: Demand) -> None:
        """Compile the selectors of a demand, which may take longer than to ask them about a node."""
        for expression in (*demand.class_selectors, *demand.selectors):
            with suppress(InputError):  # an answer, when a device is asked about
                self._selector(expression)

    def of(self, demand: Demand, part: SliceDevices) -> Selection:
        """The devices of ``part`` that ``demand`` and its class select, in order."""
        key = (demand.class_selectors, demand.selectors, part.driver, id(part.source))
        known = self._known.get(key)
        if known is None:
            selected = self._looked_up(demand, part)
            if not _is_known(selected):
                return selected
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
                self._same.clear()
            # Slices of nodes of one kind have equal answers: they share one object.
            known = self._known[key] = (self._same.setdefault(selected, selected), part.source)
        return known[0]

    def _looked_up(self, demand: Demand, part: SliceDevices) -> Selection:
        reads = self._reads_of(demand)
        if reads is None or not self._is_plain(part):
            return tuple(self._select(demand, part))
        columns = [part.read.get(read) or self._column(read, part) for read in reads]
        key = (demand.class_selectors, demand.selectors, part.driver, len(part.source), *columns)
        known = self._by_columns.get(key)
        if known is None:
            known = tuple(self._select(demand, part))
            if _is_known(known):
                if len(self._by_columns) >= _ALIKE:
                    self._by_columns.clear()
                self._by_columns[key] = known
        return known

    def _reads_of(self, demand: Demand) -> tuple[Read, ...] | None:
        """What all selectors of a demand read; None where one depends on a device as a whole."""
        key = (demand.class_selectors, demand.selectors)
        if key not in self._reads:
            if len(self._reads) >= _ALIKE:
                self._reads.clear()
            found: set[Read] = set()
            whole = False
            for expression in (*demand.class_selectors, *demand.selectors):
                try:
                    reads = self._selector(expression).reads
                except InputError:
                    continue  # fails for all devices alike
                whole = whole or reads is None
                found.update(reads or ())
            self._reads[key] = None if whole else tuple(sorted(found))
        return self._reads[key]

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
            if len(self._columns) >= _ALIKE:
                self._columns.clear()
                self._same_parts.clear()
            known = self._same_parts[same] = (parts, self._columns.setdefault(values, Column(values)))
        part.read[read] = known[1]
        return known[1]

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
