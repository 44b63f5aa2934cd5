"""The name formats of the Kubernetes API. Each function yields an error per broken rule.

Sources: k8s.io/apimachinery v0.36.3, pkg/api/validate/content (dns.go, kube.go, identifier.go); k8s.io/kubernetes
v1.36.3, pkg/apis/resource/validation/validation.go (validateQualifiedName, validatePoolName) and
pkg/apis/core/validation/validation.go (ValidateCSIDriverName, which upstream uses for driver names). Lengths are
counted in bytes, as Go counts them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from driver.api.validation.errors import FieldError, shown

if TYPE_CHECKING:
    from driver.api.resource_v1 import ObjectMeta

__all__ = [
    "attribute_name",
    "byte_length",
    "driver_name",
    "extended_resource_name",
    "full_attribute_name",
    "label",
    "label_key",
    "label_value",
    "metadata",
    "pool_name",
    "subdomain",
    "template_metadata",
    "uid",
]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SUBDOMAIN_ANY_CASE: Final = re.compile(_SUBDOMAIN.pattern, re.ASCII | re.IGNORECASE)
_LABEL_KEY: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_DRIVER_LENGTH: Final = 63
_ID_LENGTH: Final = 32
_ANNOTATIONS_SIZE: Final = 256 * 1024


def byte_length(value: str) -> int:
    """Return the length that Go's ``len`` would give: in UTF-8 bytes."""
    return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))


def _form(path: str, value: str, form: re.Pattern[str], limit: int, expected: str) -> Iterator[FieldError]:
    length = byte_length(value)
    if length > limit:
        yield FieldError(path, f"{shown(value)} has {length} characters, at most {limit} are allowed")
    # A value over the limit is not matched: what is wrong with it is told, and a hostile one costs nothing.
    elif form.fullmatch(value) is None:
        yield FieldError(path, f"{shown(value)} is not {expected}")


def label(path: str, value: str) -> Iterator[FieldError]:
    """Check a DNS label (RFC 1123): names of devices, requests and counters."""
    if not value:
        yield FieldError(path, "is required")
        return
    expected = "a DNS label: lower-case letters, digits and '-', starting and ending with a letter or digit"
    yield from _form(path, value, _LABEL, _LABEL_LENGTH, expected)


def subdomain(path: str, value: str) -> Iterator[FieldError]:
    """Check a DNS subdomain (RFC 1123): names of objects, nodes and device classes."""
    if not value:
        yield FieldError(path, "is required")
        return
    expected = "a DNS subdomain: labels of lower-case letters, digits and '-', joined by '.'"
    yield from _form(path, value, _SUBDOMAIN, _SUBDOMAIN_LENGTH, expected)


def driver_name(path: str, value: str) -> Iterator[FieldError]:
    """Check a driver's name: a DNS subdomain of at most 63 characters; upper case is allowed."""
    if not value:
        yield FieldError(path, "is required")
        return
    expected = "a driver name: a DNS subdomain such as rootport.dev"
    yield from _form(path, value, _SUBDOMAIN_ANY_CASE, _DRIVER_LENGTH, expected)


def pool_name(path: str, value: str) -> Iterator[FieldError]:
    """Check a pool's name: DNS subdomains joined by ``/``, at most 253 characters together."""
    if not value:
        yield FieldError(path, "is required")
    elif byte_length(value) > _SUBDOMAIN_LENGTH:
        length = byte_length(value)
        yield FieldError(path, f"{shown(value)} has {length} characters, at most {_SUBDOMAIN_LENGTH} are allowed")
    else:
        for part in value.split("/"):
            if not part:
                yield FieldError(path, f"{shown(value)} has an empty part")
            yield from subdomain(path, part) if part else ()


def _c_identifier(path: str, value: str) -> Iterator[FieldError]:
    expected = "a C identifier: letters, digits and '_', not starting with a digit"
    yield from _form(path, value, _C_IDENTIFIER, _ID_LENGTH, expected)


def attribute_name(path: str, value: str) -> Iterator[FieldError]:
    """Check an attribute's or capacity's name: a C identifier of at most 32 characters, with or without a domain.

    Upstream lets a name with two or more slashes pass (a TODO in validateQualifiedName); so does this function, since
    it says what the API server would refuse.
    """
    domain, slash, identifier = value.rpartition("/")
    if "/" in domain:
        return
    if slash and not domain:
        yield FieldError(path, f"{shown(value)} has an empty domain before '/'")
    elif slash:
        yield from driver_name(path, domain)
    if identifier:
        yield from _c_identifier(path, identifier)
    else:
        yield FieldError(path, f"{shown(value)} has no name" if slash else "an empty name is not allowed")


def full_attribute_name(path: str, value: str) -> Iterator[FieldError]:
    """Check an attribute's name with its domain, as constraints need it."""
    yield from attribute_name(path, value)
    if "/" not in value:
        yield FieldError(path, f"{shown(value)} has no domain: expected domain/name, such as rootport.dev/pcieSwitch")


def label_key(path: str, value: str) -> Iterator[FieldError]:
    """Check a label's key (also of taints and tolerations): a name of at most 63 characters, perhaps with a domain."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        yield FieldError(path, f"{shown(value)} is not a label key: more than one '/'")
        return
    if slash and not prefix:
        yield FieldError(path, f"{shown(value)} has an empty domain before '/'")
    elif slash:
        yield from subdomain(path, prefix)
    expected = "a label key: letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
    yield from _form(path, name, _LABEL_KEY, _LABEL_LENGTH, expected)


def label_value(path: str, value: str) -> Iterator[FieldError]:
    """Check a label's value (also of taints and tolerations): empty, or formed like a label key's name."""
    if value:
        expected = "a label value: letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
        yield from _form(path, value, _LABEL_KEY, _LABEL_LENGTH, expected)


def extended_resource_name(path: str, value: str) -> Iterator[FieldError]:
    """Check an extended resource's name: a label key with a domain outside of kubernetes.io.

    Source: IsExtendedResourceName in k8s.io/kubernetes v1.36.3, pkg/apis/core/v1/helper. The name must stay a label
    key with ``requests.`` before it, because quotas write it so.
    """
    if "/" not in value or "kubernetes.io/" in value or value.startswith("requests."):
        yield FieldError(path, f"{shown(value)} is not an extended resource name, such as example.com/gpu")
    else:
        yield from label_key(path, f"requests.{value}")


def uid(path: str, value: str) -> Iterator[FieldError]:
    """Check a UID as Kubernetes makes them: an RFC 4122 UUID in lower case."""
    try:
        normal = str(uuid.UUID(value)) == value
    except ValueError:
        normal = False
    if not normal:
        yield FieldError(path, f"{shown(value)} is not a UUID in its normal form (lower case, with hyphens)")


def metadata(meta: ObjectMeta, *, namespaced: bool, path: str = "metadata") -> Iterator[FieldError]:
    """Check an object's metadata. The namespace may be absent: clients fill it in before the API server sees it."""
    if meta.name:
        yield from subdomain(f"{path}.name", meta.name)
    elif not meta.generate_name:
        yield FieldError(f"{path}.name", "name or generateName is required")
    if meta.generate_name:
        # The API server appends five characters and checks the name so made: hyphens may end the prefix.
        yield from subdomain(f"{path}.generateName", meta.generate_name.rstrip("-") or "-")
    if meta.namespace and namespaced:
        yield from label(f"{path}.namespace", meta.namespace)
    elif meta.namespace:
        yield FieldError(f"{path}.namespace", "is not allowed: objects of this kind have no namespace")
    yield from _labels(f"{path}.labels", meta.labels)
    yield from _annotations(f"{path}.annotations", meta.annotations)


def template_metadata(meta: ObjectMeta, *, path: str) -> Iterator[FieldError]:
    """Check the metadata of a template: labels and annotations only (ValidateTemplateObjectMeta in core/validation)."""
    for field, value in (
        ("name", meta.name),
        ("generateName", meta.generate_name),
        ("namespace", meta.namespace),
        ("uid", meta.uid),
        ("resourceVersion", meta.resource_version),
    ):
        if value:
            yield FieldError(f"{path}.{field}", "cannot be set in a template: only labels and annotations can")
    yield from _labels(f"{path}.labels", meta.labels)
    yield from _annotations(f"{path}.annotations", meta.annotations)


def _labels(path: str, labels: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from label_key(path, key)
        yield from label_value(f"{path}[{key}]", value)


def _annotations(path: str, annotations: Mapping[str, str]) -> Iterator[FieldError]:
    for key in annotations:
        yield from label_key(path, key.lower() if key.isascii() else key)
    size = sum(byte_length(key) + byte_length(value) for key, value in annotations.items())
    if size > _ANNOTATIONS_SIZE:
        yield FieldError(path, f"has {size} bytes together, at most {_ANNOTATIONS_SIZE} are allowed")
