"""The API server's address and the plain ways to be let in: tokens, client certificates and an authority.

Files that others replace while this process runs (the kubelet: token and authority of a service account) are read
again. What is more than that (credential plugins, proxies) is left to the official client.
"""

from __future__ import annotations

import base64
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import yaml

from driver.adapters.files.input_file import read_input
from driver.errors import InputError

__all__ = ["Credentials", "kubeconfig_credentials", "service_account"]

TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
AUTHORITY_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")

_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_TOKEN_AGE_S: Final = 60.0  # as client-go reads it again
_LONGEST_TOKEN: Final = 64 * 1024
_LONGEST_KUBECONFIG: Final = 4 * 1024**2
_KUBECONFIG: Final = "a kubeconfig file"

# k8s.io/client-go v0.37.2, tools/clientcmd/api/v1/types.go: the fields of Cluster and AuthInfo that are known here.
_CLUSTER_FIELDS: Final = frozenset(
    {
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority",
        "certificate-authority-data",
        "disable-compression",
        "extensions",
    }
)
_USER_FIELDS: Final = frozenset(
    {
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "extensions",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How the two sides are verified.

    Attributes:
        authority: The file of the server's authority; None for ``authority_data``, or the system's authorities.
        authority_data: The authority's certificates (PEM).
        certificate: The files of the client's certificate and key; None for ``certificate_data``, or none.
        certificate_data: The client's certificate and key (PEM), in one text.
        verifies: Whether the server's certificate is verified.
    """

    authority: Path | None = None
    authority_data: str | None = None
    certificate: tuple[Path, Path] | None = None
    certificate_data: bytes | None = field(default=None, repr=False)
    verifies: bool = True

    def context(self) -> ssl.SSLContext:
        """Return what a connection is made with.

        Raises:
            OSError: A file cannot be read, or is no certificate (ssl.SSLError).
        """
        context = ssl.create_default_context(
            cafile=None if self.authority is None else str(self.authority), cadata=self.authority_data
        )
        if not self.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_data is not None:
            # OpenSSL reads files only; this one has no name that another process could open.
            descriptor = os.memfd_create("client-certificate")
            try:
                os.write(descriptor, self.certificate_data)
                context.load_cert_chain(f"/proc/self/fd/{descriptor}")
            finally:
                os.close(descriptor)
        elif self.certificate is not None:
            certificate, key = self.certificate
            context.load_cert_chain(certificate, key)
        return context

    def signature(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that is another one once a file was replaced."""
        files = (self.authority, *(self.certificate or ()))
        found = [path.stat() for path in files if path is not None]
        return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in found)


class Credentials:
    """An API server, and how a request is let in. Thread-safe.

    Args:
        server: The server's URL.
        tls: How both sides are verified; of no account for ``http://``.
        token: The bearer token; None for none, or one in a file.
        token_file: The file that has it, which is read again each minute.
        server_name: The name in the server's certificate, where it is not the one in the URL.
        now: Returns the monotonic time in seconds.

    Attributes:
        host: The server's name or IP address.
        port: Its port.
        prefix: What stands before each path.
        server_name: The name that its certificate must have.

    Raises:
        OSError: A file cannot be read, or is no certificate.
        ValueError: This is no server's URL, or no token.
    """

    def __init__(
        self,
        server: SplitResult,
        *,
        tls: Tls,
        token: str | None = None,
        token_file: Path | None = None,
        server_name: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if server.scheme not in ("http", "https") or not server.hostname or server.query or server.fragment:
            raise ValueError("expected the server as https://HOST:PORT")
        self._is_https = server.scheme == "https"
        self.host = server.hostname
        self.port = server.port or (443 if self._is_https else 80)
        self.prefix = server.path.rstrip("/")
        self.server_name = server_name or self.host
        self._tls = tls
        self._token = _checked(token) if token else ""
        self._token_file = token_file
        self._now = now
        self._lock = threading.Lock()
        self._token_until = -1.0
        self._context: tuple[object, ssl.SSLContext] | None = None
        self.tls()
        self.token()

    def token(self) -> str:
        """Return the bearer token; empty if there is none.

        Raises:
            OSError: Its file cannot be read.
            ValueError: It has no token.
        """
        with self._lock:
            if self._token_file is not None and self._now() >= self._token_until:
                with self._token_file.open("rb") as file:
                    content = file.read(_LONGEST_TOKEN + 1)
                self._token = _checked(content.decode(errors="replace"))
                self._token_until = self._now() + _TOKEN_AGE_S
            return self._token

    def tls(self) -> ssl.SSLContext | None:
        """Return what a new connection is made with; None for plain HTTP.

        Raises:
            OSError: A file cannot be read, or is no certificate.
        """
        if not self._is_https:
            return None
        with self._lock:
            signature = self._tls.signature()
            if self._context is None or self._context[0] != signature:
                self._context = (signature, self._tls.context())
            return self._context[1]


def _checked(text: str) -> str:
    """Return a token; what is none must not come into a header, nor into a message."""
    token = text.strip()
    if not token or len(token) > _LONGEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("there is no token in it")
    return token


def service_account(
    environment: Mapping[str, str] = os.environ,
    *,
    token_file: Path | None = None,
    authority: Path | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Return the pod's own service account; its token is read again each minute, for the kubelet replaces it.

    Args:
        environment: Has the server's address, as the kubelet sets it.
        token_file: The token's file; by default the one that the kubelet mounts.
        authority: The file of the server's authority; likewise.
        now: As for :class:`Credentials`.

    Raises:
        InputError: This process does not run in a pod, or the pod mounts no token.
    """
    host, port = environment.get(_HOST), environment.get(_PORT)
    try:
        if not host or not port:
            raise ValueError(f"{_HOST} and {_PORT} are not set")  # noqa: TRY301 - one message for all
        address = f"[{host}]" if ":" in host else host
        return Credentials(
            urlsplit(f"https://{address}:{port}"),
            tls=Tls(authority=authority or AUTHORITY_FILE),
            token_file=token_file or TOKEN_FILE,
            now=now,
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"no service account to reach the API server with: {error}",
            hint="run in a pod that mounts one, or name a kubeconfig",
        ) from error


def kubeconfig_credentials(path: Path) -> Credentials | None:
    """Return the current context of a kubeconfig; None if it is not plain, or not usable: the official client says why.

    Raises:
        InputError: The file cannot be read.
    """
    content = read_input(path, _LONGEST_KUBECONFIG, _KUBECONFIG)
    try:
        return _of_document(yaml.safe_load(content), path.parent)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError, RecursionError):
        return None


def _of_document(document: Any, folder: Path) -> Credentials | None:
    context = _named(document, "contexts", document["current-context"])["context"]
    cluster = _named(document, "clusters", context["cluster"])["cluster"]
    user = _named(document, "users", context["user"])["user"] or {}
    if not (cluster.keys() <= _CLUSTER_FIELDS and user.keys() <= _USER_FIELDS):
        return None
    certificate, key = (_pem(user, f"client-{part}", folder) for part in ("certificate", "key"))
    files = data = None
    if isinstance(certificate, Path) and isinstance(key, Path):
        files = (certificate, key)
    elif certificate is not None and key is not None:
        parts = (part.read_bytes() if isinstance(part, Path) else part for part in (certificate, key))
        data = b"\n".join(parts)
    elif certificate is not None or key is not None:
        return None
    authority = _pem(cluster, "certificate-authority", folder)
    token_file = user.get("tokenFile")
    return Credentials(
        urlsplit(cluster["server"]),
        tls=Tls(
            authority=authority if isinstance(authority, Path) else None,
            authority_data=authority.decode() if isinstance(authority, bytes) else None,
            certificate=files,
            certificate_data=data,
            verifies=cluster.get("insecure-skip-tls-verify") is not True,
        ),
        token=user.get("token"),
        token_file=folder / token_file if token_file else None,
        server_name=cluster.get("tls-server-name"),
    )


def _named(document: Any, kind: str, name: object) -> Any:
    return next((item for item in document[kind] if item["name"] == name), None)


def _pem(section: Mapping[str, str], field_name: str, folder: Path) -> Path | bytes | None:
    """Return certificates or a key: what stands in the kubeconfig goes before a file, as in client-go."""
    data, file = section.get(f"{field_name}-data"), section.get(field_name)
    if data:
        return base64.b64decode(data, validate=True)
    return folder / file if file else None
