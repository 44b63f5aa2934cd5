"""What the readings of an RDMA NIC mean for its health: its link, how often it went down, and its errors.

Sources: Documentation/ABI/stable/sysfs-class-infiniband of Linux for the counters (their names are those of the
InfiniBand Architecture Specification 1.4, 16.1.3.5, PortCounters). Ten errors are what ibcheckerrs of infiniband-diags
takes for too many; ten in five minutes are 120 an hour, which NVIDIA's guides name as the rate that a cable of the
specified bit error rate stays below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from driver.health.readings import NicReading, PortReading
from driver.model.devices import DeviceName
from driver.model.health import LINK_DOWN_FAULT, Effect, Fault

__all__ = ["LINK_ERROR_COUNTERS", "NicHistory", "nic_faults"]

LINK_ERROR_COUNTERS: Final = (
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""What a bad cable, transceiver or port shows. The other counters show congestion, peers and applications:
they are metrics, and no fault of this device."""

_LINK_DOWNED: Final = "link_downed"
_WINDOW: Final = timedelta(minutes=5)
_MAX_ERRORS: Final = 10
_FLAPPING_WINDOW: Final = timedelta(minutes=10)
_FLAPPING: Final = 3
_MAX_DOWNS: Final = 8
_ACTIVE: Final = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PortHistory:
    """What must be known of a port's former readings.

    Attributes:
        state: The state at the last reading; None where it was not reported.
        counters: The counters at the last reading.
        base: The counters at ``base_at``, from which errors are counted.
        noisy: The counters that grew too fast, by how much, until ``noisy_until``.
        downs: When it went down.
    """

    state: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    base: Mapping[str, int] = field(default_factory=dict)
    base_at: datetime
    noisy: Mapping[str, int] = field(default_factory=dict)
    noisy_until: datetime
    downs: tuple[datetime, ...] = ()


class NicHistory:
    """The former readings of all NICs, as far as rules need them.

    Args:
        downs: When ports went down before a restart, by NIC and port.
    """

    def __init__(self, downs: Mapping[str, tuple[datetime, ...]]) -> None:
        self._ports: dict[str, _PortHistory] = {}
        self._downs_before = dict(downs)

    def take(self, reading: NicReading, now: datetime) -> None:
        """Add a reading. A NIC without ports, whose device is in a pod, keeps what is known of it."""
        for port in reading.ports:
            key = _key(reading.device, port.number)
            former = self._ports.get(key)
            if former is None:
                downs = _recent(self._downs_before.pop(key, ()), now)
                self._ports[key] = _PortHistory(
                    state=port.state,
                    counters=port.counters,
                    base=port.counters,
                    base_at=now,
                    noisy_until=now,
                    downs=downs,
                )
            else:
                self._ports[key] = _next(former, port, now)

    def downs(self) -> dict[str, tuple[datetime, ...]]:
        """Return when ports went down, by NIC and port, to be remembered over a restart."""
        known = {key: port.downs for key, port in self._ports.items()}
        return {key: downs for key, downs in sorted((self._downs_before | known).items()) if downs}

    def move_back(self, by: timedelta) -> None:
        """Take note that the clock was set back."""
        self._downs_before = {key: _moved_back(downs, by) for key, downs in self._downs_before.items()}
        self._ports = {
            key: replace(
                port,
                base_at=port.base_at - by,
                noisy_until=port.noisy_until - by,
                downs=_moved_back(port.downs, by),
            )
            for key, port in self._ports.items()
        }

    def flaps(self, device: DeviceName, number: int) -> int:
        """Return how often a port went down within the last ten minutes before its latest reading."""
        port = self._ports.get(_key(device, number))
        return len(port.downs) if port else 0

    def noisy(self, device: DeviceName, number: int, now: datetime) -> Mapping[str, int]:
        """Return the error counters of a port that grew too fast, and by how much."""
        port = self._ports.get(_key(device, number))
        return port.noisy if port and now < port.noisy_until else {}


def nic_faults(reading: NicReading, history: NicHistory, now: datetime) -> tuple[Fault, ...]:
    """Return the states that a reading shows, each reason once, with ``since=now``.

    LinkDown (NoSchedule): no port is active. LinkFlapping (NoSchedule): a port went down three times in ten minutes.
    LinkErrors (None): an error counter of the link grew by more than ten in five minutes.

    Args:
        reading: The NIC's; without ports it shows nothing.
        history: That has this reading already.
        now: In UTC.
    """
    return tuple(_faults(reading, history, now))


def _faults(reading: NicReading, history: NicHistory, now: datetime) -> Iterator[Fault]:
    device = reading.device
    states = {port.number: port.state for port in reading.ports if port.state is not None}
    if states and _ACTIVE not in states.values():
        shown_states = ", ".join(f"port {number} is {state}" for number, state in states.items())
        yield Fault(
            device=device,
            reason=LINK_DOWN_FAULT,
            effect=Effect.NO_SCHEDULE,
            since=now,
            message=f"{shown_states}: check the cable, the switch's port, and on InfiniBand the subnet manager",
        )
    flapping = [port.number for port in reading.ports if history.flaps(device, port.number) >= _FLAPPING]
    if flapping:
        yield Fault(
            device=device,
            reason="LinkFlapping",
            effect=Effect.NO_SCHEDULE,
            since=now,
            message=f"{_ports(flapping)} went down {_FLAPPING} times or more within "
            f"{_FLAPPING_WINDOW // timedelta(minutes=1)} minutes: check the cable, the transceivers and the switch's "
            "port",
        )
    noisy = {port.number: found for port in reading.ports if (found := history.noisy(device, port.number, now))}
    if noisy:
        names = sorted({name for counters in noisy.values() for name in counters})
        yield Fault(
            device=device,
            reason="LinkErrors",
            effect=Effect.NONE,
            since=now,
            # Without the amounts: a message that changes with each reading would be a write each time.
            message=f"{', '.join(names)} of {_ports(list(noisy))} grew by more than {_MAX_ERRORS} within "
            f"{_WINDOW // timedelta(minutes=1)} minutes: clean or exchange the cable or the transceiver",
        )


def _ports(numbers: list[int]) -> str:
    return f"port{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _next(former: _PortHistory, port: PortReading, now: datetime) -> _PortHistory:
    downs = min(_MAX_DOWNS, _growth(former.counters, port.counters, _LINK_DOWNED))
    if not downs and former.state == _ACTIVE and port.state is not None and port.state != _ACTIVE:
        downs = 1
    kept = (*_recent(former.downs, now), *(now,) * downs)[-_MAX_DOWNS:]
    found = replace(former, state=port.state, counters=port.counters, downs=kept)
    # A counter that an administrator has set to zero begins anew.
    base = {name: min(count, former.base.get(name, count)) for name, count in port.counters.items()}
    grown = {name: growth for name in LINK_ERROR_COUNTERS if (growth := _growth(base, port.counters, name))}
    noisy = {name: growth for name, growth in grown.items() if growth > _MAX_ERRORS}
    if noisy:
        return replace(found, base=port.counters, base_at=now, noisy=noisy, noisy_until=now + _WINDOW)
    if now - former.base_at >= _WINDOW:
        return replace(found, base=port.counters, base_at=now)
    return replace(found, base=base)


def _growth(before: Mapping[str, int], now: Mapping[str, int], name: str) -> int:
    if name not in before or name not in now:
        return 0
    return max(0, now[name] - before[name])


def _recent(downs: tuple[datetime, ...], now: datetime) -> tuple[datetime, ...]:
    return tuple(moment for moment in downs if now - moment < _FLAPPING_WINDOW)


def _moved_back(moments: tuple[datetime, ...], by: timedelta) -> tuple[datetime, ...]:
    return tuple(moment - by for moment in moments)


def _key(device: DeviceName, number: int) -> str:
    return f"{device}/{number}"
