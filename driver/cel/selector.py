"""Compiles device selectors and caches their answers.

Selectors repeat and so do devices: a selector is compiled once, and evaluated once for each combination of the values
that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeAlias

from celpy.evaluation import CELEvalError
from lark import Tree

from driver.api import resource_v1
from driver.cel.cache import AnswerCache, CompileCache
from driver.cel.checker import check
from driver.cel.device import device_value
from driver.cel.errors import CelCompileError, CelEvaluationError, CelLimitError
from driver.cel.estimate import MAX_COST, estimate
from driver.cel.evaluator import SelectorEvaluator
from driver.cel.kubernetes import parse_version
from driver.cel.lowering import lower
from driver.cel.meter import STANDARD, BudgetExceededError, LimitReachedError, Limits, Meter
from driver.cel.parser import parse
from driver.cel.reads import Read, reads
from driver.cel.values import Value, type_name

__all__ = ["Selector", "are_plain", "compile_selector", "find_amount", "find_attribute", "read_parts", "read_value"]

_MAX_LENGTH: Final = 10 * 1024  # resource.k8s.io/v1 CELSelectorExpressionMaxLength, in bytes
_SELECTORS: Final = 1024
_LENGTH_OF_ALL: Final = 128 * 1024  # characters of all that are remembered: some 30 MiB at most
_DEVICES: Final = 16_384
_ANSWERS: Final = 4096
_ATTRIBUTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The reason of an evaluation that would be stopped again."""

    problem: str


_Outcome: TypeAlias = bool | str | _Stopped
"""True, false, the error, or that the result is not known."""


class Selector:
    """A device selector. Made by :func:`compile_selector`.

    Attributes:
        expression: The expression.
        reads: The values of a device that it reads, sorted; None where it depends on the device as a whole.
        cost: The most that one evaluation can cost in Kubernetes' units, as the API server estimates it; 2^64 - 1 where
            it sees no bound. An evaluation that does cost more than the limit ends with an error.
    """

    __slots__ = ("_answers", "_devices", "_steps", "_tree", "cost", "expression", "reads")

    def __init__(self, expression: str, *, stored: bool) -> None:
        checked = check(parse(expression), expression, stored=stored)
        self.expression = expression
        self.cost = estimate(checked)
        self.reads: tuple[Read, ...] | None = reads(checked)
        self._tree: Tree[Any]
        self._tree, self._steps = lower(checked, expression)
        # By the device's identity first, because that is quick; the device is kept so that its id stays its own.
        self._devices: AnswerCache[int, tuple[resource_v1.Device, str, _Outcome]] = AnswerCache()
        self._answers: AnswerCache[tuple[object, ...], _Outcome] = AnswerCache()

    def check_cost(self) -> None:
        """Refuse a selector that might cost too much, as the API server does and the scheduler does not.

        Raises:
            CelCompileError: The worst-case cost is above the limit.
        """
        if self.cost > MAX_COST:
            shown = "without bound" if self.cost >= 2**63 else f"{self.cost} in the worst case"
            problem = f"too complex: its cost is {shown}, the limit is {MAX_COST}"
            raise CelCompileError(problem, self.expression, hint="range over fewer values, or compare shorter strings")

    def matches(self, driver: str, device: resource_v1.Device, limits: Limits = STANDARD) -> bool:
        """Whether the device is selected.

        Args:
            driver: The driver of the slice that the device is in; the domain of attribute names without one.
            device: The device. It must not change: answers are cached.
            limits: What the evaluation may use up, if the answer is not cached.

        Raises:
            CelLimitError: The evaluation was stopped by these limits, and the answer is not known.
            CelEvaluationError: The expression has no value for this device, for example because the device lacks an
                attribute that it reads.
        """
        known = self._devices.get(id(device))
        if known is not None and known[0] is device and known[1] == driver:
            outcome = known[2]
        else:
            outcome = self._outcome(driver, device, limits)
            self._devices.put(id(device), (device, driver, outcome), most=_DEVICES)
        if outcome is True or outcome is False:
            return outcome
        if isinstance(outcome, _Stopped):
            raise CelLimitError(outcome.problem, self.expression)
        raise CelEvaluationError(outcome, self.expression)

    def _outcome(self, driver: str, device: resource_v1.Device, limits: Limits) -> _Outcome:
        key = self.key(driver, device)
        outcome = self._answers.get(key)
        if outcome is None:
            outcome = self._evaluated(driver, device, limits)
            self._answers.put(key, outcome, most=_ANSWERS, weight=self.key_size(device))
        return outcome

    def key(self, driver: str, device: resource_v1.Device) -> tuple[object, ...]:
        """Return what the answer depends on: the values that are read, or all of the device."""
        if self.reads is None or not _has_plain(device):
            attributes = tuple(sorted(device.attributes.items(), key=itemgetter(0)))
            capacity = tuple(sorted((name, amount.value) for name, amount in device.capacity.items()))
            return (driver, device.allow_multiple_allocations, attributes, capacity)
        return tuple([read_value(read, driver, device) for read in self.reads])

    def key_size(self, device: resource_v1.Device) -> int:
        """Return the size of a key, in the unit of :class:`driver.cel.cache.AnswerCache`."""
        return 2 + (len(device.attributes) + len(device.capacity) if self.reads is None else len(self.reads)) // 2

    def _evaluated(self, driver: str, device: resource_v1.Device, limits: Limits = STANDARD) -> _Outcome:
        try:
            value = device_value(driver, device)
            meter = Meter(MAX_COST, limits)
            meter.work(self._steps)
            result: Value = SelectorEvaluator(self._tree, value, meter).run()
        except LimitReachedError as error:
            if error.by_clock or limits is not STANDARD:
                # Not remembered: another attempt may get to an answer.
                raise CelLimitError(str(error), self.expression) from None
            return _Stopped(str(error))
        except (CELEvalError, BudgetExceededError, ValueError) as error:
            return str(error.args[0])
        except RecursionError:
            # Not remembered: with more of the stack left there is an answer.
            raise CelEvaluationError("nests too deeply for what is left of Python's stack", self.expression) from None
        if isinstance(result, bool):
            return result
        return f"CEL result of type {type_name(result)} could not be converted to bool"


def compile_selector(expression: str, *, stored: bool = False) -> Selector:
    """Return the selector of an expression; the same object for the same expression, while it is cached.

    Args:
        expression: A CEL expression over the variable ``device``.
        stored: Whether to compile as kube-scheduler does for a stored object: attributes may be lists, macros may range
            over them, and there is ``includes``. Otherwise as the API server does for a new object with its default
            gates, DRAListTypeAttributes off.

    Raises:
        CelCompileError: Kubernetes would refuse it (not CEL, unknown names, wrong types, too long), or it uses what
            Rootport does not support yet.
    """
    return _COMPILED(expression, stored)


def _compiled(expression: str, stored: bool) -> Selector:  # noqa: FBT001 - as it is a key
    try:
        length = len(expression.encode())
    except UnicodeEncodeError as error:
        raise CelCompileError("not valid Unicode", expression, offset=error.start) from None
    if length > _MAX_LENGTH:
        raise CelCompileError(f"too long: {length} bytes, the limit is {_MAX_LENGTH}", expression)
    try:
        return Selector(expression, stored=stored)
    except RecursionError:
        raise CelCompileError("nests too deeply for what is left of Python's stack", expression) from None


_COMPILED: Final = CompileCache(_compiled, most=_SELECTORS, length=_LENGTH_OF_ALL)

_PLAIN: Final[dict[int, resource_v1.DeviceAttribute]] = {}
"""Plain attributes by identity, kept so that no other object gets their id; most equal ones are one object."""


def _has_plain(device: resource_v1.Device) -> bool:
    """Whether all attributes of the device are plain; called for every device and every expression."""
    attributes = device.attributes.values()
    if all(map(_PLAIN.__contains__, map(id, attributes))):
        return True
    for attribute in attributes:
        if id(attribute) not in _PLAIN:
            if not _is_plain(attribute):
                return False
            if len(_PLAIN) >= _ATTRIBUTES:
                _PLAIN.clear()
            _PLAIN[id(attribute)] = attribute
    return True


def are_plain(devices: Iterable[resource_v1.Device]) -> bool:
    """Whether the answers of a :class:`Selector` for these devices depend only on what it reads."""
    return all(map(_has_plain, devices))


def _is_plain(attribute: resource_v1.DeviceAttribute) -> bool:
    """Whether an attribute cannot make a device unusable for expressions that do not even read it."""
    if attribute.int_value is None and attribute.bool_value is None and attribute.string_value is None:
        return attribute.version_value is not None and _is_version(attribute.version_value)
    return True


@lru_cache(maxsize=1024)
def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except ValueError:
        return False
    return True


def find_attribute(read: Read, driver: str, device: resource_v1.Device) -> resource_v1.DeviceAttribute | None:
    """Return the attribute that ``read`` means, named with its domain or, for the driver's, without; or None."""
    return device.attributes.get(read.name) or device.attributes.get(read.id if read.domain == driver else "")


def find_amount(read: Read, driver: str, device: resource_v1.Device) -> resource_v1.DeviceCapacity | None:
    """Return the capacity that ``read`` means, named with its domain or, for the driver's, without; or None."""
    return device.capacity.get(read.name) or device.capacity.get(read.id if read.domain == driver else "")


def read_parts(read: Read, driver: str, devices: Iterable[resource_v1.Device]) -> list[object]:
    """Return the parts of each device that decide what ``read`` means; the same objects, the same values."""
    if read.part == "driver":
        return [driver for _ in devices]
    if read.part == "allowMultipleAllocations":
        return [device.allow_multiple_allocations for device in devices]
    name, short = read.name, read.id if read.domain == driver else ""
    if read.part == "capacity":
        return [(amounts := device.capacity).get(name) or amounts.get(short) for device in devices]
    return [(attributes := device.attributes).get(name) or attributes.get(short) for device in devices]


def read_value(read: Read, driver: str, device: resource_v1.Device) -> object:
    """Return the device's value of ``read``, with its type; None if it has none. Selectors see no more of it."""
    if read.part == "driver":
        return driver
    if read.part == "allowMultipleAllocations":
        return device.allow_multiple_allocations
    if read.part == "capacity":
        amount = find_amount(read, driver, device)
        return None if amount is None else amount.value
    attribute = find_attribute(read, driver, device)
    if attribute is None:
        return None
    # One of these is set; its position gives its type.
    return (attribute.string_value, attribute.int_value, attribute.bool_value, attribute.version_value)
