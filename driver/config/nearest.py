"""The valid requests that come nearest to one that asks for a wrong amount, so that a message can lead to them.

A check returns the changes that would make a request valid; the message names them, and a test applies each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.quantity import Quantity

__all__ = ["Change", "advice", "nearest_amounts", "one_bandwidth", "one_way"]

_NANO: Final = 10**9
_PERCENT: Final = 100
_MOST_DEVICES: Final = 32
"""A claim can be given no more (AllocationResultsMaxSize in k8s.io/api v0.36.3, resource/v1/types.go)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change of a request.

    Attributes:
        key: The capacity, as the request names it.
        amount: What to ask for instead; None to leave it out.
        count: How many devices to ask for; None leaves that.
        why: What leaving it out means; empty where the amount says all.
    """

    key: str
    amount: str | None = None
    count: int | None = None
    why: str = ""

    def __str__(self) -> str:
        """Return it as what to do: ``ask for count: 2 with core: "100"``."""
        if self.amount is None:
            todo = f"ask for count: {self.count} without {self.key}" if self.count else f"leave out {self.key}"
            return f"{todo}: {self.why}" if self.why else todo
        # Quantities that YAML would read as numbers are quoted, as people write them.
        amount = f'{self.key}: "{self.amount}"' if self.amount.isdigit() else f"{self.key}: {self.amount}"
        return f"ask for count: {self.count} with {amount}" if self.count else f"ask for {amount}"


def nearest_amounts(key: str, name: str, amount: Quantity) -> tuple[Change, ...]:
    """Return the changes that make a wrong amount right, the likeliest first; at least one.

    Args:
        key: The capacity, as the request names it.
        name: The same without its domain; one that :func:`driver.config.shares.share_errors` checks.
        amount: The wrong amount.
    """
    return tuple(_NEAREST[name](key, amount))


def one_way(keys: Mapping[str, str], device_class: str) -> tuple[Change, ...]:
    """Return which of memory in bytes and in percent to leave out: that which devices of the class do not have.

    Args:
        keys: ``memory`` and ``memoryRatio``, as the request names them.
        device_class: The request's class; empty if it is not known.
    """
    bytes_go = Change(key=keys["memory"], why="devices of class gpu-ratio.rootport.dev have memoryRatio")
    percent_goes = Change(key=keys["memoryRatio"], why="devices of class gpu.rootport.dev have memory")
    if device_class.startswith("gpu-ratio"):
        return (bytes_go,)
    return (percent_goes,) if device_class.startswith("gpu") else (percent_goes, bytes_go)


def one_bandwidth(keys: Mapping[str, str]) -> tuple[Change, ...]:
    """Return which of a NIC's bandwidth in bits per second and in percent to leave out: a NIC has one of them.

    Args:
        keys: ``bandwidth`` and ``bandwidthRatio``, as the request names them.
    """
    return (
        Change(key=keys["bandwidthRatio"], why="NICs of known speed have bandwidth, unless policies say percent"),
        Change(key=keys["bandwidth"], why="other NICs have bandwidthRatio"),
    )


def advice(changes: Sequence[Change]) -> str:
    """Return the changes as the end of a message: ``ask for core: "34"``."""
    return ", or ".join(map(str, changes))


def _percent(key: str, amount: Quantity) -> Iterator[Change]:
    number = amount.ceil()
    if number > _PERCENT:
        count = -(-number // _PERCENT)
        if count <= _MOST_DEVICES:
            yield Change(key=key, amount=str(-(-number // count)), count=count)
        if number % _PERCENT or count > _MOST_DEVICES:
            yield Change(key=key, amount=str(_PERCENT))
    elif number < 1:
        yield Change(key=key, why=_left_out(key))
        yield Change(key=key, amount="1")
    elif amount.is_whole() or number > 1:
        yield Change(key=key, amount=str(number))
    else:  # a fraction below 1 is meant as a fraction of the device
        yield Change(key=key, amount=str(max(1, _ceil(_PERCENT * amount.nano))))


def _of_unit(suffix: str, step: int) -> Callable[[str, Quantity], Iterator[Change]]:
    """Return what finds the amounts that were meant where a suffix was left out, or is ``m``.

    Args:
        suffix: Of the second unit, in which amounts are whole numbers: ``Mi``.
        step: How many of these make one of the first, in which people think: 1024.
    """

    def nearest(key: str, amount: Quantity) -> Iterator[Change]:
        if amount.nano == 0:
            yield Change(key=key, why=_left_out(key))
            return
        size = Quantity.from_nano(abs(amount.nano), amount.format)
        texts = [str(size)] if size.is_whole() else [str(size.ceil())]
        if not size.is_whole() and size.ceil() <= step:
            texts = [f"{_ceil(step * size.nano)}{suffix}"]
            if size.nano * 1000 % _NANO == 0:  # as 500m is
                texts.append(f"{_ceil(1000 * size.nano)}{suffix}")
        yield from (Change(key=key, amount=text) for text in dict.fromkeys(texts))

    return nearest


def _vfs(key: str, amount: Quantity) -> Iterator[Change]:
    count = amount.ceil()
    yield Change(key=key, amount="1", count=count if 1 < count <= _MOST_DEVICES else None)


def _ceil(nano: int) -> int:
    return -(-nano // _NANO)


def _left_out(key: str) -> str:
    """Return what a request gets of a capacity that it does not name."""
    name = key.rpartition("/")[2]
    if name == "core":
        return "then no core is reserved"
    return f"then it is all of the {'NIC' if name.startswith('bandwidth') else 'GPU'}'s"


_NEAREST: Final[Mapping[str, Callable[[str, Quantity], Iterator[Change]]]] = {
    "bandwidth": _of_unit("M", 1000),
    "bandwidthRatio": _percent,
    "core": _percent,
    "memory": _of_unit("Mi", 1024),
    "memoryRatio": _percent,
    "vfs": _vfs,
}
