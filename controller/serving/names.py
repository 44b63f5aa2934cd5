"""The names that a certificate is for."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from driver.api.validation.errors import shown
from driver.errors import InputError

__all__ = ["certificate_host", "service_names"]

_MAX_NAME: Final = 253
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """By which names a Service is reached in its cluster, whose domain is cluster.local mostly."""
    name = f"{service}.{namespace}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name)


def certificate_host(text: str) -> str:
    """A DNS name or IP address as a certificate has it, so that it is found there again.

    Raises:
        InputError: It is neither.
    """
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        name = text.lower()
    if len(name) > _MAX_NAME or _NAME.fullmatch(name) is None:
        raise InputError(
            f"--webhook-host {shown(text)} is no DNS name and no IP address", hint="such as rootport.example.com"
        )
    return name
