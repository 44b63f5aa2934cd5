"""Keeps the webhooks' certificate in a Secret that all replicas share, and its CA in the webhooks' configurations.

It works without cert-manager, with the Secret and the configurations of the manifests. Every replica runs one. Of two
that write the Secret at once, one gets a conflict and reads what the other wrote.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from controller.admission.rotation import Lifetimes, SharedCertificates, decide
from controller.serving.certificates import ServingCertificate, read_authorities, read_certificate, to_bundle
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ConflictError, NotFoundError
from driver.adapters.kubernetes.resources import SECRETS, JsonObject, Resource
from driver.backoff import Backoff

__all__ = ["FIELD_MANAGER", "SECRET", "CertificateKeeper", "FailurePolicy", "KeeperOptions", "KeptConfiguration"]

SECRET: Final = "rootport-webhook"  # noqa: S105 - its name
FIELD_MANAGER: Final = "rootport-controller-webhook"

FailurePolicy: TypeAlias = Literal["Ignore", "Fail"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_RETRY_S: Final = 0.5
_COMPONENTS: Final = "resourceclasses/components"
_PATH_KEY: Final = "path"
_PATH_BYTES: Final = 24
_PATH: Final = re.compile("[0-9a-f]{48}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConfiguration:
    """A webhook configuration that the keeper writes into.

    Attributes:
        resource: Its kind.
        name: Its name.
        failure_policy: What the API server does with an object if no webhook answers: ``Ignore`` admits it, ``Fail``
            refuses it.
        component: The component of the manifests that has it.
        secret_path_below: Where reviews are sent that only an API server may send: to a path below this one that
            cannot be guessed. Empty if the path is the manifests' and anybody may know it.
    """

    resource: Resource
    name: str
    failure_policy: FailurePolicy
    component: str
    secret_path_below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """The settings of the certificate.

    Attributes:
        namespace: The Secret's namespace.
        names: The DNS names and IP addresses of the server.
        configurations: The webhook configurations; at least one.
        lifetimes: How long certificates are valid.
        period_s: How often Secret and configurations are checked, in seconds.
    """

    namespace: str
    names: frozenset[str]
    configurations: tuple[KeptConfiguration, ...]
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    period_s: float = 30.0


class CertificateKeeper:
    """Issues, renews and hands out the certificate, in a thread of its own.

    Args:
        api: With the rights of ``resourceclasses/components/webhook``.
        options: The settings.
        use: Called with each certificate that is to be served from now on.
    """

    def __init__(
        self,
        api: KubernetesApi,
        options: KeeperOptions,
        *,
        use: Callable[[ServingCertificate], None],
    ) -> None:
        self._api = api
        self._options = options
        self._use = use
        self._in_use: ServingCertificate | None = None
        self._path = ""
        self._problem = "the webhook has no certificate yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    @property
    def problem(self) -> str:
        """Why there is no certificate to serve; empty if there is one."""
        return "" if self._in_use is not None else self._problem

    @property
    def secret_path(self) -> str:
        """The last part of the path that API servers alone know; empty until it is known here."""
        return self._path

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for a request under way."""
        self._stop.set()

    def check(self) -> None:
        """Write what must be written, and hand out the certificate if it is a new one.

        Raises:
            ApiServerError: The API server does not answer, refuses, or another replica wrote at the same moment.
        """
        secret = self._read_secret()
        held, path = _held(secret), _path(secret)
        failures: list[ApiServerError] = []
        stored: list[tuple[KeptConfiguration, JsonObject]] = []
        # Without any configuration nothing is sent here, so no API server must know the next certificate's CA.
        trusted = frozenset(authority.pem for authority in held.authorities)
        for kept in self._options.configurations:
            try:
                configuration = self._configuration(kept)
            except ApiServerError as error:
                # Clients other than the API server need the certificate as well: this is raised at the end.
                failures.append(error)
                if not isinstance(error, NotFoundError):
                    trusted = frozenset()
            else:
                stored.append((kept, configuration))
                trusted &= _trusted(configuration)
        wanted = decide(
            held,
            trusted,
            names=self._options.names,
            now=datetime.now(UTC),
            lifetimes=self._options.lifetimes,
        )
        is_path_due = not path and any(kept.secret_path_below for kept in self._options.configurations)
        if is_path_due:
            path = secrets.token_hex(_PATH_BYTES)
        if is_path_due or wanted != held:
            self._write(secret, wanted, path)
        # Before API servers send anything there.
        self._path = path
        # Before the certificate is served, so that the API server trusts its CA first.
        for kept, configuration in stored:
            if (failure := self._configure(kept, configuration, wanted)) is not None:
                failures.append(failure)
        if wanted.current is not None and wanted.current != self._in_use:
            self._use(wanted.current)
            self._in_use = wanted.current
            _LOG.info("certificate in use", extra={"ends": wanted.current.ends.isoformat()})
        if failures:
            raise failures[0]

    def _run(self) -> None:
        logged, backoff = "", Backoff(_FIRST_RETRY_S, self._options.period_s)
        while True:
            wait_s = self._options.period_s
            try:
                self.check()
            except ConflictError:
                logged, wait_s = "", _FIRST_RETRY_S  # another replica was faster: read what it wrote
            except ApiServerError as error:
                self._problem = f"the webhook has no certificate yet: {error}"
                if logged != str(error):
                    logged = str(error)
                    _LOG.warning("the webhook's certificate cannot be kept", extra={"error": logged})
                wait_s = min(backoff.next_s(), self._options.period_s)
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all renewals
                self._problem = "the webhook has no certificate yet: the controller's log says why"
                logged = ""
                _LOG.exception("unexpected error; the webhook's certificate is looked at again")
            else:
                logged = ""
                backoff.reset()
            if self._stop.wait(wait_s):
                return

    def _read_secret(self) -> JsonObject:
        try:
            return self._api.get(SECRETS, SECRET, namespace=self._options.namespace)
        except NotFoundError as error:
            # RBAC cannot bind a creation to a name, and a right to create any Secret is too much for this.
            raise NotFoundError(
                f"Secret {self._options.namespace}/{SECRET} is not there, to keep the webhook's certificate in",
                hint=f"apply {_COMPONENTS}/webhook: it is made empty, and filled by the controller",
            ) from error

    def _configuration(self, kept: KeptConfiguration) -> JsonObject:
        try:
            return self._api.get(kept.resource, kept.name)
        except NotFoundError as error:
            raise NotFoundError(
                f"{kept.resource.kind} {kept.name} is not there: nothing is sent to this webhook",
                hint=f"apply {_COMPONENTS}/{kept.component}",
            ) from error

    def _write(self, secret: JsonObject, held: SharedCertificates, path: str) -> None:
        data = _data(held) | ({_PATH_KEY: base64.b64encode(path.encode()).decode()} if path else {})
        self._api.replace(SECRETS, secret | {"data": data}, namespace=self._options.namespace)
        _LOG.info(
            "certificates written",
            extra={"secret": f"{self._options.namespace}/{SECRET}", "authorities": len(held.authorities)},
        )

    def _configure(
        self, kept: KeptConfiguration, configuration: JsonObject, held: SharedCertificates
    ) -> ApiServerError | None:
        """Apply what is the keeper's alone, for all other fields are the manifests'; return the error, if any."""
        bundle = base64.b64encode(to_bundle(held.authorities)).decode()
        path = f"{kept.secret_path_below}/{self._path}" if kept.secret_path_below else ""
        hooks = configuration.get("webhooks") or []
        wanted = [
            {
                "name": hook["name"],
                "clientConfig": {"caBundle": bundle} | _client(hook["clientConfig"], path),
                "failurePolicy": kept.failure_policy,
            }
            for hook in hooks
        ]
        if all(_has(hook, item) for hook, item in zip(hooks, wanted, strict=True)):
            return None
        body = {"metadata": {"name": kept.name, "uid": configuration["metadata"]["uid"]}, "webhooks": wanted}
        try:
            self._api.apply(kept.resource, body, field_manager=FIELD_MANAGER)
        except ApiServerError as error:
            return error
        _LOG.info("webhook configured", extra={"configuration": kept.name, "failure_policy": kept.failure_policy})
        return None


def _client(client: JsonObject, path: str) -> JsonObject:
    """Return the fields of a webhook's ``clientConfig`` that say to which path reviews are sent."""
    if not path:
        return {}
    if url := client.get("url"):
        return {"url": urlsplit(str(url))._replace(path=path).geturl()}
    return {"service": {"path": path}}


def _has(stored: object, wanted: object) -> bool:
    """Return whether an object has these values, whatever else it has."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(_has(stored.get(key), value) for key, value in wanted.items())
    return stored == wanted


def _path(secret: JsonObject) -> str:
    """Return the last part of the secret path; empty if it has none that API servers take.

    Each part of ``clientConfig.service.path`` has to be a DNS subdomain (``ValidateWebhookService`` in
    k8s.io/apiserver v0.37.2): controllers before 0.1.0 wrote capitals and underscores.
    """
    text = _decoded((secret.get("data") or {}).get(_PATH_KEY)).decode(errors="replace")
    return text if _PATH.fullmatch(text) else ""


def _trusted(configuration: JsonObject) -> frozenset[bytes]:
    """Return the CAs that every webhook of the configuration has."""
    hooks: Iterable[JsonObject] = configuration.get("webhooks") or ()
    bundles = [
        frozenset(authority.pem for authority in read_authorities(_decoded(hook["clientConfig"].get("caBundle"))))
        for hook in hooks
    ]
    return frozenset.intersection(*bundles) if bundles else frozenset()


def _held(secret: JsonObject) -> SharedCertificates:
    data = secret.get("data") or {}
    current, current_key, following, following_key, bundle = (
        _decoded(data.get(key)) for key in ("tls.crt", "tls.key", "next.crt", "next.key", "ca.crt")
    )
    return SharedCertificates(
        current=read_certificate(current, current_key),
        next=read_certificate(following, following_key),
        authorities=read_authorities(bundle),
    )


def _data(held: SharedCertificates) -> dict[str, str]:
    data = {"ca.crt": to_bundle(held.authorities)}
    if held.current is not None:
        data |= {"tls.crt": held.current.pem, "tls.key": held.current.key}
    if held.next is not None:
        data |= {"next.crt": held.next.pem, "next.key": held.next.key}
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
