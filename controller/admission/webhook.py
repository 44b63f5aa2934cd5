"""The HTTPS server with the admission webhook, which every replica runs, and with other routes beside it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from controller.admission.certificate_keeper import CertificateKeeper, FailurePolicy, KeeperOptions
from controller.admission.review import Advise, BadReviewError, review
from controller.admission.rotation import Lifetimes
from controller.serving.certificates import ServingCertificate
from controller.serving.names import certificate_host, service_names
from controller.serving.secure_server import SecureServer
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.kubernetes.api import KubernetesApi

__all__ = ["ADMISSION_PATH", "SERVICE", "Webhook", "WebhookOptions", "admission_route", "admission_server"]

ADMISSION_PATH: Final = "/admission"
"""Where the API server sends its reviews: ``clientConfig.service.path``."""

SERVICE: Final = "rootport-webhook"

_LOG: Final = logging.getLogger(__name__)
_REVIEWS: Final = 2  # at once, in threads of their own, so that other requests do not delay the API server


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """The settings of the HTTPS server.

    Attributes:
        port: TCP port, on all addresses; 0 for any free one.
        namespace: Where the Service and the Secret are.
        hosts: Further DNS names and IP addresses that clients reach it by.
        failure_policy: As for :class:`~controller.admission.certificate_keeper.KeeperOptions`.
        lifetimes: How long certificates are valid.
        period_s: How often the certificate is checked, in seconds.
    """

    port: int
    namespace: str
    hosts: tuple[str, ...] = ()
    failure_policy: FailurePolicy = "Ignore"
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    period_s: float = 30.0


class Webhook:
    """The HTTPS server and its certificate.

    Args:
        api: With the rights of ``resourceclasses/components/webhook``.
        options: The settings.
        routes: The other routes, by path prefix.
        advise: Returns warnings about a claim.

    Raises:
        InputError: One of the hosts is no DNS name and no IP address.
        NodeError: The port is taken.
    """

    def __init__(
        self,
        api: KubernetesApi,
        options: WebhookOptions,
        *,
        routes: Mapping[str, Route] | None = None,
        advise: Advise = lambda _: (),
    ) -> None:
        hosts = [certificate_host(text) for text in options.hosts]
        self._server = admission_server(options.port, advise=advise, routes=routes)
        names = (*service_names(SERVICE, options.namespace), *hosts)
        self._keeper = CertificateKeeper(
            api,
            KeeperOptions(
                namespace=options.namespace,
                names=frozenset(names),
                failure_policy=options.failure_policy,
                lifetimes=options.lifetimes,
                period_s=options.period_s,
            ),
            use=self._use,
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def problem(self) -> str:
        """Why it cannot answer yet; empty if it can."""
        return self._keeper.problem

    def start(self) -> None:
        """Start serving as soon as there is a certificate."""
        self._keeper.start()
        self._server.start()
        _LOG.info("HTTPS", extra={"port": self.port})

    def stop(self) -> None:
        """Stop serving."""
        self._keeper.stop()
        self._server.stop()

    def _use(self, certificate: ServingCertificate) -> None:
        self._server.use(certificate.pem, certificate.key)


def admission_server(port: int, *, advise: Advise, routes: Mapping[str, Route] | None = None) -> SecureServer:
    """Return the server of the admission webhook and of the routes beside it, still without a certificate.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        advise: Returns warnings about a claim.
        routes: The other routes, by path prefix.

    Raises:
        NodeError: The port is taken.
    """
    every = {ADMISSION_PATH: admission_route(advise)} | dict(routes or {})
    return SecureServer(port, every, own_threads={ADMISSION_PATH: _REVIEWS})


def admission_route(advise: Advise) -> Route:
    """Return the route of the admission webhook."""

    def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response.of_text("expected POST", status=HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return Response.of_json(review(request.body, advise))
        except BadReviewError as error:
            return Response.of_text(str(error), status=error.status)

    return answer
