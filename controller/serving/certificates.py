"""The serving certificate and the certificate authority (CA) that signs it: X.509 by ``cryptography``.

Each certificate has a CA of its own, whose key is thrown away when the certificate is signed: no second one that the
API server would trust can ever be made. So a new certificate means a new CA: :mod:`controller.admission.rotation`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "ServingCertificate", "issue", "read_authorities", "read_certificate", "to_bundle"]

_SKEW: Final = timedelta(hours=1)  # clients whose clocks are behind accept a new certificate all the same
_MAX_AUTHORITIES: Final = 32
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A CA's certificate.

    Attributes:
        pem: The certificate.
        ends: When it expires, together with the certificate that it signed.
    """

    pem: bytes
    ends: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """A certificate and its key.

    Attributes:
        pem: The certificate.
        key: Its private key, PEM (PKCS #8, without a password). Not in its ``repr``: no log and no traceback has it.
        names: Its DNS names and IP addresses.
        begins: From when on it is valid: a little before it was issued.
        issued: When it was issued.
        ends: When it expires.
    """

    pem: bytes
    key: bytes = field(repr=False)
    names: frozenset[str]
    begins: datetime
    issued: datetime
    ends: datetime

    def is_of(self, authority: Authority) -> bool:
        """Return whether this authority signed it."""
        try:
            _load(self.pem).verify_directly_issued_by(_load(authority.pem))
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def issue(names: Iterable[str], *, now: datetime, valid: timedelta) -> tuple[ServingCertificate, Authority]:
    """Issue a serving certificate (ECDSA P-256) and its own CA.

    Args:
        names: DNS names and IP addresses of the server, at least one.
        now: The time, with a time zone.
        valid: How long both are valid from now on.
    """
    # X.509 knows whole seconds.
    now, names = now.replace(microsecond=0), frozenset(names)
    begins, ends = now - _SKEW, now + valid
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # Each CA has its own name, so that no client takes one for another.
    authority_name = _name(f"rootport-webhook-ca-{x509.random_serial_number():x}"[:64])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name("rootport-webhook"), authority_name, key.public_key(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in sorted(names)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = ServingCertificate(
        pem=_pem(certificate), key=key_pem, names=frozenset(names), begins=begins, issued=now, ends=ends
    )
    return made, Authority(pem=_pem(authority), ends=ends)


def read_certificate(pem: bytes, key: bytes) -> ServingCertificate | None:
    """Read a stored certificate; return None if it or its key cannot be read, or they do not belong together."""
    try:
        certificate = _load(pem)
        private = serialization.load_pem_private_key(key, password=None)
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType):
        return None
    if private.public_key() != certificate.public_key():
        return None
    names = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return ServingCertificate(
        pem=pem,
        key=key,
        names=frozenset((*names, *map(str, addresses))),
        begins=certificate.not_valid_before_utc,
        issued=certificate.not_valid_before_utc + _SKEW,
        ends=certificate.not_valid_after_utc,
    )


def read_authorities(bundle: bytes) -> tuple[Authority, ...]:
    """Read the first 32 CAs of a bundle, in its order; leave out what cannot be read."""
    found: dict[bytes, Authority] = {}
    for part in bundle.split(_BEGIN)[1 : _MAX_AUTHORITIES + 1]:
        try:
            certificate = _load(_BEGIN + part)
        except ValueError:
            continue
        pem = _pem(certificate)
        found[pem] = Authority(pem=pem, ends=certificate.not_valid_after_utc)
    return tuple(found.values())


def to_bundle(authorities: Iterable[Authority]) -> bytes:
    """Return the CAs as one PEM text, as ``caBundle`` has it in base64."""
    return b"".join(authority.pem for authority in authorities)


def _load(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
