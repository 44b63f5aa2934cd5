"""Reads an administrator's statement that a device is well again, where no driver can know.

An annotation of the NodeInventory: ``rootport.dev/recovered: gpu-0000-13-00-0@2026-03-01T10:00:00Z``, several of them
with commas between. Errors that the device's driver reported until that time are over.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from driver.model.devices import DeviceName

__all__ = ["RECOVERED_ANNOTATION", "read_recovered"]

RECOVERED_ANNOTATION: Final = "rootport.dev/recovered"

_MAX_ENTRIES: Final = 512
_MAX_SHOWN: Final = 80
_FORM: Final = "DEVICE@TIME with a time such as 2026-03-01T10:00:00Z"
_SKEW: Final = timedelta(minutes=5)
"""How far an administrator's clock may be ahead of the node's."""


def read_recovered(text: str, now: datetime) -> tuple[dict[DeviceName, datetime], tuple[str, ...]]:
    """Return until when each device's errors are over, and what of the text could not be used, a sentence each.

    Args:
        text: The annotation's value.
        now: In UTC. A time in the future is refused: it would end errors that are yet to come.
    """
    found: dict[DeviceName, datetime] = {}
    problems: list[str] = []
    entries = text.split(",", _MAX_ENTRIES)
    if len(entries) > _MAX_ENTRIES:
        problems.append(f"{RECOVERED_ANNOTATION}: only its first {_MAX_ENTRIES} entries are read")
    for entry in entries[:_MAX_ENTRIES]:
        device, separator, time = entry.strip().partition("@")
        if not entry.strip():
            continue
        try:
            at = datetime.fromisoformat(time)
        except ValueError:
            at = None
        shown = repr(entry.strip()[:_MAX_SHOWN])
        if not separator or not device or at is None or at.tzinfo is None:
            problems.append(f"{RECOVERED_ANNOTATION}: {shown} is not {_FORM}")
        elif at > now + _SKEW:
            problems.append(f"{RECOVERED_ANNOTATION}: {shown} is in the future")
        else:
            name = DeviceName(device)
            found[name] = max(at.astimezone(UTC), found.get(name, at.astimezone(UTC)))
    return found, tuple(problems)
