"""Which certificate the webhook's replicas show, and when the next one comes. Decides; no I/O.

All that replicas share is what :class:`Held` says, so each of them decides the same from it. A new certificate is made
long before the old one ends, and comes in two steps: first its certificate authority (CA) is told to the API server;
only when that has had time to take it up, the certificate is shown. An old CA stays until it ends, and with it whatever
it signed: a replica that shows an old certificate, for whatever reason, is always trusted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller.serving.certificates import Authority, ServingCertificate, issue

__all__ = ["Held", "Lifetimes", "decide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long what holds.

    Attributes:
        valid: From a certificate's making to its end.
        renew_after: The age at which the next one is made.
        settle: How long the next one waits, so that API servers know its CA and replicas have read it.
    """

    valid: timedelta = timedelta(days=90)
    renew_after: timedelta = timedelta(days=60)
    settle: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the replicas share.

    Attributes:
        current: What is shown; None at first, or where it cannot be read.
        next: What is shown after it.
        authorities: Whom the API server is to trust, the newest first.
    """

    current: ServingCertificate | None = None
    next: ServingCertificate | None = None
    authorities: tuple[Authority, ...] = ()


def decide(held: Held, told: Collection[bytes], *, names: frozenset[str], now: datetime, lifetimes: Lifetimes) -> Held:
    """What the replicas should share from now on; equal to ``held`` where nothing is to do.

    Args:
        held: What they share.
        told: The CAs, as PEM, that every webhook's configuration has.
        names: What the certificate must be for.
        now: With a time zone.
        lifetimes: How long what holds.
    """
    authorities = tuple(authority for authority in held.authorities if authority.ends > now)
    held = replace(
        held,
        current=held.current if _is_good(held.current, authorities, names, now) else None,
        next=held.next if _is_good(held.next, authorities, names, now) else None,
        authorities=authorities,
    )
    if held.current is None:
        # The first one, or one that nobody renewed: nothing is lost by showing it at once.
        if held.next is not None:
            return replace(held, current=held.next, next=None)
        made, authority = issue(names, now=now, valid=lifetimes.valid)
        return replace(held, current=made, authorities=(authority, *authorities))
    if held.next is not None:
        known = any(authority.pem in told and held.next.is_of(authority) for authority in authorities)
        if known and now >= held.next.issued + lifetimes.settle:
            return replace(held, current=held.next, next=None)
    elif now >= held.current.issued + lifetimes.renew_after:
        made, authority = issue(names, now=now, valid=lifetimes.valid)
        return replace(held, next=made, authorities=(authority, *authorities))
    return held


def _is_good(
    certificate: ServingCertificate | None, authorities: Collection[Authority], names: frozenset[str], now: datetime
) -> bool:
    return (
        certificate is not None
        and certificate.begins <= now < certificate.ends
        and names <= certificate.names
        and any(certificate.is_of(authority) for authority in authorities)
    )
