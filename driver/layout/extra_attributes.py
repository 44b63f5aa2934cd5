"""Adds attributes that an administrator wants published, such as those under another driver's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from driver import DRIVER_NAME
from driver.layout.values import Value

if TYPE_CHECKING:
    from driver.api.policies import ExtraAttribute

__all__ = ["with_extra"]

_NOTHING: Final[Mapping[str, Value]] = MappingProxyType({})


def with_extra(
    own: dict[str, Value],
    extra: Sequence[ExtraAttribute],
    not_published: Mapping[str, Value] = _NOTHING,
) -> dict[str, Value]:
    """Add to a device's attributes those of its policy: each has the value of one of its own, under another name.

    An attribute whose source the device does not have is absent, as the source is.

    Args:
        own: What the device publishes by itself.
        extra: What the policy adds.
        not_published: Values that it does not publish by itself, and that can be published by a policy.
    """
    values = {**not_published, **own}
    # Names without a domain are of the driver's own.
    names = ((entry.name.removeprefix(f"{DRIVER_NAME}/"), entry.source) for entry in extra)
    return own | {name: values[source] for name, source in names if source in values and name not in own}
