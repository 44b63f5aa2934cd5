"""Rewrites requests for a percentage of a device's memory, or bandwidth, as prioritized lists (KEP-4816).

Two capacities of one device cannot keep one book. So a GPU is published twice, with its memory in bytes and in percent,
and kube-scheduler allocates it in one of these ways at a time. Here a request for a percentage becomes one alternative
for each size that the cluster's GPUs have, in bytes, and last the request as it was, for hardware that is new or of
unknown size. Shares in percent and in bytes are then counted together, and fit on one GPU.

The smallest size comes first: whoever asks for a percentage takes any GPU, and larger ones are left for who needs their
bytes. kube-scheduler prefers nodes where an earlier alternative fits (DynamicResources.Score, v1.37.2). The order does
not depend on how many devices there are, so that equal claims stay equal while the cluster grows.

Constraints, configuration and containers name the request, and mean whichever alternative is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.ratios.requests import (
    ADMIN_ACCESS,
    MAX_ALTERNATIVES,
    MAX_NAME,
    Fields,
    Ratio,
    StaysError,
    amounts_of,
    checked,
    percentage_of,
)
from driver.ratios.sizes import Size, Sizes

__all__ = ["OF_A_SIZE", "Change", "Rewriting", "restored", "rewritten"]

_MAX_REQUESTS: Final = 32
_MAX_NAMED: Final = 32
"""Requests that a constraint or an entry of the configuration names. These two: k8s.io/api v0.37.2, resource/v1."""
_MAX_DEVICES: Final = 4
"""Devices of a claim by percentage up to which it is rewritten. kube-scheduler tries each of them as the GPU in bytes
and as the one in percent, with all that are left of the others: where a node has one GPU too few, two to the power of
their number times as often as without a list."""
_ALTERNATIVE: Final = "ratio"
OF_A_SIZE: Final = "-of-"
"""Stands in an alternative's name between that of the one it was made of, and the size."""
_OWN: Final = f'device.capacity["{DRIVER_NAME}"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a request, or of an alternative, that names a percentage.

    Attributes:
        path: Its place below ``spec.devices``: ``requests[0].exactly``.
        capacity: The name of the percentage, such as ``memoryRatio``.
        percent: What the request names.
        text: The alternatives in words; or why it stays as it is, and what to do.
        is_rewritten: Whether it is rewritten.
    """

    path: str
    capacity: str
    percent: str
    text: str
    is_rewritten: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """A claim's ``spec.devices`` with percentages as prioritized lists.

    Attributes:
        devices: The very input if nothing is rewritten.
        changes: A line for each percentage; none for lists that were rewritten before.
    """

    devices: Fields
    changes: tuple[Change, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether anything is rewritten."""
        return any(change.is_rewritten for change in self.changes)


def rewritten(devices: Fields, sizes: Sizes) -> Rewriting:
    """Return a claim's ``spec.devices`` in which requests for a percentage are prioritized lists.

    Nothing is changed in place, and what is rewritten once stays as it is the next time.

    Args:
        devices: As it was written: JSON types, nothing of it checked.
        sizes: The sizes of the cluster's devices.
    """
    requests = devices.get("requests")
    if not isinstance(requests, list) or len(requests) > _MAX_REQUESTS:
        return Rewriting(devices=devices)
    changes: list[Change] = []
    renamed: dict[str, list[str]] = {}
    written = [_request(item, f"requests[{index}]", sizes, changes, renamed) for index, item in enumerate(requests)]
    if not any(change.is_rewritten for change in changes):
        return Rewriting(devices=devices, changes=tuple(changes))
    if sum(map(_devices_in_percent, requests)) > _MAX_DEVICES:
        text = f"kube-scheduler would search too long for more than {_MAX_DEVICES} such devices of a claim"
        return Rewriting(devices=devices, changes=tuple(_stays(change, text) for change in changes))
    changed = dict(devices) | {"requests": written}
    for key in ("constraints", "config"):
        if isinstance(entries := devices.get(key), list):
            changed[key] = [_naming(entry, renamed) for entry in entries]
            if any(len(_names(entry)) > _MAX_NAMED for entry in changed[key]):
                text = f"an entry of {key} would name more than {_MAX_NAMED} requests"
                return Rewriting(devices=devices, changes=tuple(_stays(change, text) for change in changes))
    return Rewriting(devices=changed, changes=tuple(changes))


def restored(devices: Fields) -> Fields:
    """Return what :func:`rewritten` made these ``spec.devices`` of, whatever the sizes were.

    Args:
        devices: As for :func:`rewritten`.
    """
    requests = devices.get("requests")
    gone: set[str] = set()
    written = [_request_before(item, gone) for item in requests] if isinstance(requests, list) else requests
    if not gone:
        return devices
    changed = dict(devices) | {"requests": written}
    for key in ("constraints", "config"):
        if isinstance(entries := devices.get(key), list):
            changed[key] = [_naming(entry, dict.fromkeys(gone, ())) for entry in entries]
    return changed


def _devices_in_percent(item: Any) -> int:
    """Return how many devices a request asks for, if it or one of its alternatives names a percentage."""
    fields = item if isinstance(item, Mapping) else {}
    listed = fields.get("firstAvailable")
    parts = [fields.get("exactly"), *(listed if isinstance(listed, list) else ())]
    counts = [part.get("count") for part in parts if isinstance(part, Mapping) and percentage_of(part) is not None]
    return max((count if isinstance(count, int) else 1 for count in counts), default=0)


def _request_before(item: Any, gone: set[str]) -> Any:
    """Return a request without the alternatives that stand for another one, whose names are added to ``gone``."""
    listed = item.get("firstAvailable") if isinstance(item, Mapping) else None
    if not isinstance(listed, list):
        return item
    named = [part for part in listed if isinstance(part, Mapping) and isinstance(part.get("name"), str)]
    prefixes = tuple(f"{part['name']}{OF_A_SIZE}" for part in named if percentage_of(part) is not None)
    made = [part["name"] for part in named if part["name"].startswith(prefixes)] if prefixes else []
    if not made or len(named) < len(listed):
        return item
    gone.update(f"{item.get('name')}/{name}" for name in made)
    kept = [part for part in named if part["name"] not in made]
    if len(kept) > 1 or kept[0]["name"] != _ALTERNATIVE:
        return {**item, "firstAvailable": kept}
    exactly = {key: value for key, value in kept[0].items() if key != "name"}
    return {key: value for key, value in item.items() if key != "firstAvailable"} | {"exactly": exactly}


def _request(item: Any, path: str, sizes: Sizes, changes: list[Change], renamed: dict[str, list[str]]) -> Any:
    """Return a request, rewritten if it can be; what became of it is added to ``changes`` and ``renamed``."""
    if not isinstance(item, Mapping) or not isinstance(name := item.get("name"), str):
        return item
    exactly, listed = item.get("exactly"), item.get("firstAvailable")
    if isinstance(exactly, Mapping) and not listed:
        found = _alternatives(
            {"name": _ALTERNATIVE, **exactly}, f"{path}.exactly", sizes, MAX_ALTERNATIVES - 1, changes
        )
        others = {key: value for key, value in item.items() if key != "exactly"}
        return others | {"firstAvailable": found} if len(found) > 1 else item
    if not isinstance(listed, list) or exactly or len(listed) > MAX_ALTERNATIVES:
        return item
    in_percent = [part for part in listed if _is_to_be_rewritten(part, listed)]
    room = (MAX_ALTERNATIVES - len(listed)) // max(len(in_percent), 1)
    alternatives: list[Any] = []
    for index, part in enumerate(listed):
        found = [part]
        if _is_to_be_rewritten(part, listed):
            found = _alternatives(part, f"{path}.firstAvailable[{index}]", sizes, room, changes)
            renamed[f"{name}/{part['name']}"] = [f"{name}/{one['name']}" for one in found]
        alternatives += found
    return {**item, "firstAvailable": alternatives} if len(alternatives) > len(listed) else item


def _is_to_be_rewritten(part: Any, listed: Sequence[Any]) -> bool:
    """Return whether an alternative names a percentage, and was not rewritten before."""
    if not isinstance(part, Mapping) or not isinstance(name := part.get("name"), str) or percentage_of(part) is None:
        return False
    others = (other.get("name") for other in listed if isinstance(other, Mapping))
    return not any(isinstance(other, str) and other.startswith(f"{name}{OF_A_SIZE}") for other in others)


def _alternatives(part: Fields, path: str, sizes: Sizes, room: int, changes: list[Change]) -> list[Fields]:
    """Return the alternatives of a request, which is the last of them; it alone if it stays as it is."""
    named = percentage_of(part)
    if named is None:
        return [part]
    alternative = {key: value for key, value in part.items() if key != ADMIN_ACCESS}
    try:
        ratio, percent = checked(part, *named, room)
        found = sizes.of(ratio.kind, room)
        made = [_of_size(alternative, size, ratio, percent) for size in found]
    except StaysError as stays:
        found, made, text = (), [], str(stays)
    else:
        shares = ", ".join(str(_quantity(size.share(percent), ratio)) for size in found)
        text = f"firstAvailable: {ratio.amount} {shares}, else {named[0]} {percent}"
        text = text if found else "no device of a known size is published for its class"
    shown = str(named[1])[:MAX_NAME]
    changes.append(Change(path=path, capacity=named[0], percent=shown, text=text, is_rewritten=bool(found)))
    return [*made, alternative] if made else [part]


def _quantity(amount: int, ratio: Ratio) -> Quantity:
    return Quantity.of(amount, binary=ratio.binary)


def _of_size(part: Fields, size: Size, ratio: Ratio, percent: int) -> Fields:
    value = _quantity(size.value, ratio)
    name = f"{part['name']}{OF_A_SIZE}{str(value).lower()}"
    if len(name) > MAX_NAME:
        raise StaysError(
            f"its name leaves no room for those of the alternatives: expected a shorter name than {MAX_NAME}"
        )
    # A device without the capacity, such as a GPU of unknown memory, would make reading it an error.
    expression = f'"{ratio.amount}" in {_OWN} && {_OWN}.{ratio.amount}.compareTo(quantity("{value}")) == 0'
    amounts = {
        ratio.amount if key.removeprefix(f"{DRIVER_NAME}/") == ratio.percent else key: amount
        for key, amount in amounts_of(part).items()
    } | {ratio.amount: str(_quantity(size.share(percent), ratio))}
    return {
        **part,
        "name": name,
        "deviceClassName": ratio.amount_class,
        "selectors": [{"cel": {"expression": expression}}, *(part.get("selectors") or [])],
        "capacity": {**part["capacity"], "requests": amounts},
    }


def _names(entry: Any) -> Sequence[Any]:
    names = entry.get("requests") if isinstance(entry, Mapping) else None
    return names if isinstance(names, list) else ()


def _naming(entry: Any, renamed: Mapping[str, Sequence[str]]) -> Any:
    """Return an entry of the constraints or the configuration, which names what an alternative became."""
    names = _names(entry)
    if not any(isinstance(name, str) and name in renamed for name in names):
        return entry
    listed = [each for name in names for each in (renamed.get(name, [name]) if isinstance(name, str) else [name])]
    return {**entry, "requests": listed}


def _stays(change: Change, text: str) -> Change:
    if not change.is_rewritten:
        return change
    return Change(path=change.path, capacity=change.capacity, percent=change.percent, text=text, is_rewritten=False)
