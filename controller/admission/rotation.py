"""Decides which certificate the webhook's replicas serve, and when the next one comes, without any I/O.

The replicas share only :class:`SharedCertificates`, so each of them decides the same from them. A new certificate is
issued long before the old one expires, and comes in two steps: first its certificate authority (CA) is added to the
webhook's configuration; only after the API servers had time to read that, the certificate is served. An old CA stays
until it expires, and with it the certificate that it signed: a replica that still serves an old certificate is always
trusted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller.serving.certificates import Authority, ServingCertificate, issue

__all__ = ["Lifetimes", "SharedCertificates", "decide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The periods of a certificate's life.

    Attributes:
        valid: From its issue to its expiry.
        renew_after: The age at which the next one is issued.
        settle: How long the next one waits, so that API servers know its CA and replicas have read it.
    """

    valid: timedelta = timedelta(days=90)
    renew_after: timedelta = timedelta(days=60)
    settle: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCertificates:
    """The certificates in the Secret of all replicas.

    Attributes:
        current: The certificate that is served; None at first, or if it cannot be read.
        next: The certificate that is served after it.
        authorities: The CAs that the API server is to trust, the newest first.
    """

    current: ServingCertificate | None = None
    next: ServingCertificate | None = None
    authorities: tuple[Authority, ...] = ()


def decide(
    held: SharedCertificates, trusted: Collection[bytes], *, names: frozenset[str], now: datetime, lifetimes: Lifetimes
) -> SharedCertificates:
    """Decide what the replicas share from now on; equal to ``held`` if nothing is to do.

    Args:
        held: What they share now.
        trusted: The CAs, as PEM, that every webhook has.
        names: The names that the certificate must have.
        now: The time, with a time zone.
        lifetimes: How long certificates are valid.
    """
    authorities = tuple(authority for authority in held.authorities if authority.ends > now)
    held = replace(
        held,
        current=held.current if _is_good(held.current, authorities, names, now) else None,
        next=held.next if _is_good(held.next, authorities, names, now) else None,
        authorities=authorities,
    )
    if held.current is None:
        # The first one, or one that was not renewed in time: nothing is lost by serving it at once.
        if held.next is not None:
            return replace(held, current=held.next, next=None)
        made, authority = issue(names, now=now, valid=lifetimes.valid)
        return replace(held, current=made, authorities=(authority, *authorities))
    if held.next is not None:
        known = any(authority.pem in trusted and held.next.is_of(authority) for authority in authorities)
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
