"""Keeps the webhook's certificate in a Secret that all replicas share, and its CA in the webhook's configuration.

It works without cert-manager, with the Secret and the ValidatingWebhookConfiguration of the manifests. Every replica
runs one. Of two that write the Secret at once, one gets a conflict and reads what the other wrote.
"""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from controller.admission.rotation import Lifetimes, SharedCertificates, decide
from controller.serving.certificates import ServingCertificate, read_authorities, read_certificate, to_bundle
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ConflictError, NotFoundError
from driver.adapters.kubernetes.resources import SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS, JsonObject
from driver.backoff import Backoff

__all__ = ["CONFIGURATION", "FIELD_MANAGER", "SECRET", "CertificateKeeper", "FailurePolicy", "KeeperOptions"]

SECRET: Final = "rootport-webhook"  # noqa: S105 - its name
CONFIGURATION: Final = "rootport"
FIELD_MANAGER: Final = "rootport-controller-webhook"

FailurePolicy: TypeAlias = Literal["Ignore", "Fail"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_RETRY_S: Final = 0.5
_COMPONENT: Final = "apply resourceclasses/components/webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """The settings of the certificate.

    Attributes:
        namespace: The Secret's namespace.
        names: The DNS names and IP addresses of the server.
        failure_policy: What the API server does with a claim if no webhook answers: ``Ignore`` admits it, ``Fail``
            refuses it.
        lifetimes: How long certificates are valid.
        period_s: How often Secret and configuration are checked, in seconds.
    """

    namespace: str
    names: frozenset[str]
    failure_policy: FailurePolicy
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
        self._problem = "the webhook has no certificate yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    @property
    def problem(self) -> str:
        """Why there is no certificate to serve; empty if there is one."""
        return "" if self._in_use is not None else self._problem

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
        held = _held(secret)
        configuration: JsonObject = {}
        failure: ApiServerError | None = None
        try:
            configuration = self._configuration()
        except ApiServerError as error:
            # Clients other than the API server need the certificate as well: this is raised at the end.
            failure = error
        wanted = decide(
            held,
            _trusted(configuration),
            names=self._options.names,
            now=datetime.now(UTC),
            lifetimes=self._options.lifetimes,
        )
        if wanted != held:
            self._write(secret, wanted)
        if failure is None:
            # Before the certificate is served, so that the API server trusts its CA first.
            failure = self._configure(configuration, wanted)
        if wanted.current is not None and wanted.current != self._in_use:
            self._use(wanted.current)
            self._in_use = wanted.current
            _LOG.info("certificate in use", extra={"ends": wanted.current.ends.isoformat()})
        if failure is not None:
            raise failure

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
                hint=f"{_COMPONENT}: it is made empty, and filled by the controller",
            ) from error

    def _configuration(self) -> JsonObject:
        try:
            return self._api.get(VALIDATING_WEBHOOK_CONFIGURATIONS, CONFIGURATION)
        except NotFoundError as error:
            raise NotFoundError(
                f"ValidatingWebhookConfiguration {CONFIGURATION} is not there: claims are not checked when they are "
                "made",
                hint=_COMPONENT,
            ) from error

    def _write(self, secret: JsonObject, held: SharedCertificates) -> None:
        self._api.replace(SECRETS, secret | {"data": _data(held)}, namespace=self._options.namespace)
        _LOG.info(
            "certificates written",
            extra={"secret": f"{self._options.namespace}/{SECRET}", "authorities": len(held.authorities)},
        )

    def _configure(self, configuration: JsonObject, held: SharedCertificates) -> ApiServerError | None:
        """Apply CA and failure policy alone, for all other fields are the manifests'; return the error, if any."""
        bundle = base64.b64encode(to_bundle(held.authorities)).decode()
        wanted = {"caBundle": bundle, "failurePolicy": self._options.failure_policy}
        hooks = configuration.get("webhooks") or []
        found = [
            {"caBundle": hook["clientConfig"].get("caBundle"), "failurePolicy": hook.get("failurePolicy")}
            for hook in hooks
        ]
        if all(item == wanted for item in found):
            return None
        body = {
            "metadata": {"name": CONFIGURATION, "uid": configuration["metadata"]["uid"]},
            "webhooks": [
                {
                    "name": hook["name"],
                    "clientConfig": {"caBundle": bundle},
                    "failurePolicy": self._options.failure_policy,
                }
                for hook in hooks
            ],
        }
        try:
            self._api.apply(VALIDATING_WEBHOOK_CONFIGURATIONS, body, field_manager=FIELD_MANAGER)
        except ApiServerError as error:
            return error
        _LOG.info(
            "webhook configured",
            extra={"configuration": CONFIGURATION, "failure_policy": self._options.failure_policy},
        )
        return None


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
