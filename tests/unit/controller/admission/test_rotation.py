"""How certificates follow each other, by a clock of the test's own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from controller.admission.rotation import Lifetimes, SharedCertificates, decide
from controller.serving.certificates import (
    Authority,
    issue,
    read_authorities,
    read_certificate,
    to_bundle,
)
from controller.serving.names import certificate_host
from driver.errors import InputError

_NAMES = frozenset({"rootport-webhook.rootport-system.svc", "127.0.0.1"})
_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


def step(
    held: SharedCertificates, *, days: float = 0, is_trusted: bool = True, names: frozenset[str] = _NAMES
) -> SharedCertificates:
    pems = [authority.pem for authority in held.authorities] if is_trusted else []
    return decide(held, pems, names=names, now=_START + days * _DAY, lifetimes=Lifetimes())


@pytest.fixture(scope="module")
def first() -> SharedCertificates:
    return step(SharedCertificates())


def test_the_first_certificate_is_shown_at_once(first: SharedCertificates) -> None:
    assert first.current is not None
    assert first.next is None
    assert first.current.names == _NAMES
    assert [first.current.is_of(authority) for authority in first.authorities] == [True]
    assert step(first) == first
    assert step(first, days=59) == first


def test_the_next_certificate_waits_until_its_authority_is_known(first: SharedCertificates) -> None:
    made = step(first, days=60)
    assert made.current == first.current
    assert made.next is not None
    assert len(made.authorities) == 2
    assert step(made, days=60.001) == made  # not settled
    assert step(made, days=61, is_trusted=False) == made
    shown = step(made, days=61)
    assert (shown.current, shown.next) == (made.next, None)
    assert shown.authorities == made.authorities


def test_an_old_authority_stays_until_it_ends(first: SharedCertificates) -> None:
    shown = step(step(first, days=60), days=61)
    assert len(step(shown, days=89.9).authorities) == 2
    assert step(shown, days=90).authorities == shown.authorities[:1]


def test_a_certificate_that_was_not_renewed_is_replaced_at_once(first: SharedCertificates) -> None:
    late = step(first, days=91)
    assert late.current is not None
    assert late.current != first.current
    assert len(late.authorities) == 1


def test_a_certificate_for_too_few_names_is_replaced_at_once_and_its_authority_stays(first: SharedCertificates) -> None:
    more = _NAMES | {"rootport.example.com"}
    made = step(first, names=more)
    assert made.current is not None
    assert made.current.names == more
    assert made.authorities[1:] == first.authorities
    assert step(made) == made  # a replica that wants fewer is content


def test_a_certificate_of_an_unknown_authority_is_replaced(first: SharedCertificates) -> None:
    other = step(SharedCertificates())
    assert step(SharedCertificates(current=first.current, authorities=other.authorities)).current != first.current


def test_the_next_one_is_taken_where_the_current_one_is_lost(first: SharedCertificates) -> None:
    made = step(first, days=60)
    lost = SharedCertificates(next=made.next, authorities=made.authorities)
    assert step(lost, days=60).current == made.next


def test_what_was_written_is_read_back() -> None:
    certificate, authority = issue(_NAMES, now=_START, valid=_DAY)
    assert read_certificate(certificate.pem, certificate.key) == certificate
    assert read_authorities(to_bundle([authority, authority])) == (authority,)
    context = ssl.create_default_context(cadata=authority.pem.decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_what_cannot_be_read_or_does_not_belong_together_is_none() -> None:
    one, _ = issue(_NAMES, now=_START, valid=_DAY)
    other, authority = issue(_NAMES, now=_START, valid=_DAY)
    assert read_certificate(one.pem, other.key) is None
    assert read_certificate(b"", b"") is None
    assert read_certificate(one.pem, b"x") is None
    assert read_certificate(authority.pem, other.key) is None
    broken = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    assert read_authorities(broken + authority.pem + b"rubbish") == (authority,)
    assert not one.is_of(Authority(pem=broken, ends=_START))


@pytest.mark.parametrize("host", ["", "a b", "*.example.com", "https://a", "a" * 254, "ä.example.com", "1.2.3.4/8"])
def test_a_host_that_no_certificate_can_name_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="--webhook-host"):
        certificate_host(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "0:0::1", "Rootport.Example.com", "a" * 63 + ".b"])
def test_a_host_is_found_again_in_the_certificate_however_it_is_written(host: str) -> None:
    name = certificate_host(host)
    certificate, _ = issue([name], now=_START, valid=_DAY)
    read = read_certificate(certificate.pem, certificate.key)
    assert read is not None
    assert read.names == {name}
