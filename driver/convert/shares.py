"""What of each GPU a request takes, and what no claim can say: the one place that every dialect's requests pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import MAX_RESULTS
from driver.budget import check
from driver.config.shares import share_errors, small_amount
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, NicRequest, Wanted
from driver.errors import InputError

__all__ = ["check_request", "share_of"]

_MOST_REASONS: Final = 8
_PROFILE: Final = re.compile(r"(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?:[+-][a-z.]{1,16})*", re.ASCII)
_VALUE: Final = re.compile(r"[\w ./:()+-]{1,128}", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,31}", re.ASCII)
_STRATEGIES: Final = frozenset({"timeSlicing", "mps", "hamiCore"})


def share_of(gpu: GpuRequest) -> dict[str, str]:
    """Return ``capacity.requests`` of a request for GPUs; nothing where it takes all of each."""
    if not gpu.is_share:
        return {}
    capacity = {} if gpu.core is None else {"core": str(gpu.core)}
    if gpu.memory is not None:
        capacity["memory"] = str(Quantity.of(gpu.memory, binary=True))
    elif gpu.memory_percent is not None:
        capacity["memoryRatio"] = str(gpu.memory_percent)
    return capacity


def check_request(request: DeviceRequest) -> None:
    """Check that a claim can say what a request asks for, and that nothing of it is more than it seems.

    Raises:
        InputError: It cannot; the first reasons at once.
        SpentError: The budget in force is spent.
    """
    errors = list(dict.fromkeys(_errors(request)))
    if errors:
        more = [f"{len(errors) - _MOST_REASONS} more"] if len(errors) > _MOST_REASONS else []
        raise InputError("; ".join([*errors[:_MOST_REASONS], *more]))


def _errors(request: DeviceRequest) -> Iterator[str]:
    everything: tuple[GpuRequest | NicRequest | FpgaRequest, ...] = (*request.gpus, *request.nics, *request.fpgas)
    count = sum(max(item.count, 1) for item in everything)
    if count > MAX_RESULTS:
        yield f"{count} devices for one container: a claim can have {MAX_RESULTS}, divide them between containers"
    if any(gpu.count < 1 for gpu in request.gpus) or any(item.count < 0 for item in everything):
        yield "a number of devices that is less than 1"
    for item in everything:
        check()
        yield from (error for wanted in item.wanted for error in _wanted_errors(wanted))
    for gpu in request.gpus:
        check()
        yield from _gpu_errors(gpu)
    yield from _strategy_errors([gpu for gpu in request.gpus if share_of(gpu)])


def _strategy_errors(shares: Sequence[GpuRequest]) -> Iterator[str]:
    """Yield what the kubelet plugin would refuse to prepare (driver/plan/isolation)."""
    mps = [gpu for gpu in shares if gpu.strategy == "mps"]
    if sum(gpu.count for gpu in mps) > 1:
        yield "shares of several GPUs with strategy mps: a program can use MPS on one GPU only; ask for one"
    if len({tuple(share_of(gpu).items()) for gpu in shares if gpu.strategy == "hamiCore"}) > 1:
        yield "unlike shares of GPUs with HAMi-core, which has one limit for a container: ask for equal ones"


def _gpu_errors(gpu: GpuRequest) -> Iterator[str]:
    if gpu.profile and _PROFILE.fullmatch(gpu.profile) is None:
        yield f"{gpu.profile[:64]!r} is no MIG profile: expected one such as 1g.10gb"
    if gpu.strategy and gpu.strategy not in _STRATEGIES:
        yield f"{gpu.strategy[:64]!r} is no sharing strategy of Rootport"
    if gpu.memory is not None and (meant := small_amount("memory", Quantity.of(gpu.memory))):
        yield meant.replace(";", " of GPU memory:", 1)
    capacity = {name: Quantity(amount) for name, amount in share_of(gpu).items()}
    yield from (f"{error.path}: {error.message}" for error in share_errors(capacity, "of each GPU"))


def _wanted_errors(wanted: Wanted) -> Iterator[str]:
    if not wanted.values or _ATTRIBUTE.fullmatch(wanted.attribute) is None:
        yield f"nothing is said of the attribute {wanted.attribute[:32]!r}"
    for value in wanted.values:
        if isinstance(value, str) and _VALUE.fullmatch(value) is None:
            yield f"{value[:64]!r} cannot be a device's {wanted.attribute[:32]}: expected letters, digits, ' ./:()+-'"
