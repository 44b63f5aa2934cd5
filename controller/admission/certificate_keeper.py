"""Keeps the webhook's certificate: in a Secret that all replicas share, and told to the API server.

Works without cert-manager: what it needs are the Secret and the ValidatingWebhookConfiguration that the manifests make.
Every replica runs one. Of two that write the Secret at once one gets a conflict and reads what the other wrote.
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

from controller.admission.rotation import Held, Lifetimes, decide
from controller.serving.certificates import ServingCertificate, read_authorities, read_certificate, to_bundle
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ConflictError, NotFoundError
from driver.adapters.kubernetes.resources import SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS, JsonObject

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
    """What to keep.

    Attributes:
        namespace: The Secret's.
        names: DNS names and IP addresses that the API server and others reach the server by.
        failure_policy: What the API server does with a claim where no webhook answers: ``Ignore`` takes it, ``Fail``
            refuses it.
        lifetimes: How long certificates hold.
        period_s: How often Secret and configuration are looked at.
    """

    namespace: str
    names: frozenset[str]
    failure_policy: FailurePolicy
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    period_s: float = 30.0


class CertificateKeeper:
    """Makes, renews and hands out the certificate, in a thread of its own.

    Args:
        api: With the rights of ``resourceclasses/components/webhook``.
        options: What to keep.
        use: Called with each certificate that is to be shown from now on.
        clock: The time of day.
    """

    def __init__(
        self,
        api: KubernetesApi,
        options: KeeperOptions,
        *,
        use: Callable[[ServingCertificate], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._options = options
        self._use = use
        self._clock = clock
        self._shown: ServingCertificate | None = None
        self._problem = "the webhook has no certificate yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    @property
    def problem(self) -> str:
        """Why there is no certificate to show; empty where there is one."""
        return "" if self._shown is not None else self._problem

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a request under way is not waited for."""
        self._stop.set()

    def look(self) -> None:
        """Look once: write what must be written, and hand out the certificate where it is a new one.

        Raises:
            ApiServerError: The API server cannot be asked, refuses, or somebody else wrote at the same moment.
        """
        secret = self._read_secret()
        held = _held(secret)
        configuration: JsonObject = {}
        failure: ApiServerError | None = None
        try:
            configuration = self._configuration()
        except ApiServerError as error:
            # Others than the API server want a certificate as well: it is told at the end.
            failure = error
        wanted = decide(
            held,
            _told(configuration),
            names=self._options.names,
            now=self._clock(),
            lifetimes=self._options.lifetimes,
        )
        if wanted != held:
            self._write(secret, wanted)
        if failure is None:
            # Before the certificate is shown: the API server knows its CA first.
            failure = self._tell(configuration, wanted)
        if wanted.current is not None and wanted.current != self._shown:
            self._use(wanted.current)
            self._shown = wanted.current
            _LOG.info("certificate in use", extra={"ends": wanted.current.ends.isoformat()})
        if failure is not None:
            raise failure

    def _run(self) -> None:
        said, wait_s = "", _FIRST_RETRY_S
        while True:
            try:
                self.look()
            except ConflictError:
                said, wait_s = "", _FIRST_RETRY_S  # another replica was faster: read what it wrote
            except ApiServerError as error:
                self._problem = f"the webhook has no certificate yet: {error}"
                if said != str(error):
                    said = str(error)
                    _LOG.warning("the webhook's certificate cannot be kept", extra={"error": said})
                wait_s = min(2 * wait_s, self._options.period_s)
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all renewals
                self._problem = "the webhook has no certificate yet: the controller's log says why"
                said, wait_s = "", self._options.period_s
                _LOG.exception("unexpected error; the webhook's certificate is looked at again")
            else:
                said, wait_s = "", self._options.period_s
            if self._stop.wait(wait_s):
                return
            wait_s = max(wait_s, _FIRST_RETRY_S)

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

    def _write(self, secret: JsonObject, held: Held) -> None:
        self._api.replace(SECRETS, secret | {"data": _data(held)}, namespace=self._options.namespace)
        _LOG.info(
            "certificates written",
            extra={"secret": f"{self._options.namespace}/{SECRET}", "authorities": len(held.authorities)},
        )

    def _tell(self, configuration: JsonObject, held: Held) -> ApiServerError | None:
        """Server-side apply of the two fields alone, for all others are the manifests'; what went wrong is returned."""
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


def _told(configuration: JsonObject) -> frozenset[bytes]:
    """The CAs that every webhook of the configuration has."""
    hooks: Iterable[JsonObject] = configuration.get("webhooks") or ()
    bundles = [
        frozenset(authority.pem for authority in read_authorities(_decoded(hook["clientConfig"].get("caBundle"))))
        for hook in hooks
    ]
    return frozenset.intersection(*bundles) if bundles else frozenset()


def _held(secret: JsonObject) -> Held:
    data = secret.get("data") or {}
    current, current_key, following, following_key, bundle = (
        _decoded(data.get(key)) for key in ("tls.crt", "tls.key", "next.crt", "next.key", "ca.crt")
    )
    return Held(
        current=read_certificate(current, current_key),
        next=read_certificate(following, following_key),
        authorities=read_authorities(bundle),
    )


def _data(held: Held) -> dict[str, str]:
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
