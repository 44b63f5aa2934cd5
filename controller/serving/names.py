"""The names that a certificate is issued for."""

from __future__ import annotations

import ipaddress
from typing import Final

from driver.api.validation.errors import shown
from driver.api.validation.names import subdomain
from driver.errors import InputError

__all__ = ["certificate_host", "service_names"]

_MAX_LABEL: Final = 63  # RFC 1035; names of Kubernetes' objects may have longer labels


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of a Service in its cluster, whose domain is mostly cluster.local."""
    name = f"{service}.{namespace}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name)


def certificate_host(text: str) -> str:
    """Return a DNS name or IP address as certificates have it, so that clients find it there.

    Raises:
        InputError: The text is neither.
    """
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        name = text.lower()
    if any(subdomain("", name)) or any(len(label) > _MAX_LABEL for label in name.split(".")):
        raise InputError(
            f"--webhook-host {shown(text)} is no DNS name and no IP address", hint="such as rootport.example.com"
        )
    return name
