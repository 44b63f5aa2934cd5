"""Who allocates the devices of managed nodes, as far as the controller's Lease shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from driver.explain.known.reading import Json, text
from driver.model.managed_nodes import LEADER_ANNOTATION

__all__ = ["LEASE", "Placing", "age_text", "read_lease", "read_time"]

LEASE: Final = "rootport-controller"
"""The name of the Lease of the controller that leads, in whatever namespace it was installed."""

_STALE: Final = timedelta(minutes=2)
"""A leader renews its Lease every two seconds. The rest is left to the clocks of two machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """The controller that leads, and whether it places.

    Attributes:
        holder: Its identity; empty if none leads.
        policy: The policy by which it places; empty if it places nothing.
        renewed: When it last said that it leads; None where that is not known, or does not matter.
    """

    holder: str = ""
    policy: str = ""
    renewed: datetime | None = None

    def problem(self, now: datetime | None) -> str:
        """Return why nobody allocates the devices of managed nodes, as a clause; empty where somebody does.

        Args:
            now: The time; None where it is not known, as of a dump.
        """
        if not self.holder:
            return "no controller of Rootport leads (its Lease is missing, or nobody holds it)"
        if now is not None and self.renewed is not None and now - self.renewed > _STALE:
            since = self.renewed.strftime("%H:%M:%S")
            ago = age_text(now - self.renewed)
            return (
                f"no controller of Rootport leads: {self.holder} has not renewed its Lease since {since} UTC, {ago} ago"
            )
        if not self.policy:
            return (
                f"the controller that leads, {self.holder}, places nothing: it runs with --placement none, or is older"
            )
        return ""


def read_lease(wire: Json) -> Placing | None:
    """Read a Lease; None where it is another one than the controller's."""
    if wire["metadata"].get("name") != LEASE:
        return None
    spec = wire.get("spec") or {}
    holder = text(spec.get("holderIdentity"))
    policy, _, identity = text((wire["metadata"].get("annotations") or {}).get(LEADER_ANNOTATION)).partition(" ")
    # What a former leader wrote says nothing about the one that holds the Lease now.
    return Placing(holder=holder, policy=policy if identity == holder else "", renewed=read_time(spec.get("renewTime")))


def read_time(value: object) -> datetime | None:
    """Return a moment of the API, with its time zone; None where there is none, or it is no moment."""
    try:
        moment = datetime.fromisoformat(text(value))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def age_text(age: timedelta) -> str:
    """Write ``12 s``, ``5 minutes`` or ``3 hours``, for less than two of a unit in the next smaller one."""
    seconds = max(0, int(age.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} minutes" if seconds < 7200 else f"{seconds // 3600} hours"
