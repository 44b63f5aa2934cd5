"""The HTTPS server with the admission webhooks, which every replica runs, and with other routes beside them."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from controller.admission.certificate_keeper import (
    CertificateKeeper,
    FailurePolicy,
    KeeperOptions,
    KeptConfiguration,
)
from controller.admission.envelope import BadReviewError
from controller.admission.review import Advise, review
from controller.admission.rotation import Lifetimes
from controller.serving.certificates import ServingCertificate
from controller.serving.names import certificate_host, service_names
from controller.serving.secure_server import SecureServer
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import VALIDATING_WEBHOOK_CONFIGURATIONS, JsonObject

__all__ = [
    "ADMISSION_PATH",
    "CONFIGURATION",
    "SERVICE",
    "SecretWebhook",
    "Webhook",
    "WebhookOptions",
    "admission_server",
]

CONFIGURATION: Final = "rootport"
"""The ValidatingWebhookConfiguration's name."""

ADMISSION_PATH: Final = "/admission"
"""Where the API server sends its reviews: ``clientConfig.service.path``."""

SERVICE: Final = "rootport-webhook"

_LOG: Final = logging.getLogger(__name__)
_REVIEWS: Final = 2  # at once, in threads of their own, so that other requests do not delay the API server


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretWebhook:
    """A webhook whose reviews have side effects, or tell what not everybody may know: API servers alone may send them.

    An API server shows webhooks no credentials. What others do not know is the path, which is in the Secret and in the
    webhook's configuration: :attr:`KeptConfiguration.secret_path_below`.

    Attributes:
        configuration: The webhook configuration that has it.
        review: Answers the body of a review; raises BadReviewError.
        threads: How many reviews are answered at once.
    """

    configuration: KeptConfiguration
    review: Callable[[bytes], JsonObject]
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """The settings of the HTTPS server.

    Attributes:
        port: TCP port, on all addresses; 0 for any free one.
        namespace: Where the Service and the Secret are.
        hosts: Further DNS names and IP addresses that clients reach it by.
        failure_policy: What the API server does with a claim if no webhook answers.
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
        further: Other webhooks.

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
        further: Sequence[SecretWebhook] = (),
    ) -> None:
        hosts = [certificate_host(text) for text in options.hosts]
        every, threads = dict(routes or {}), {}
        configurations = [
            KeptConfiguration(
                resource=VALIDATING_WEBHOOK_CONFIGURATIONS,
                name=CONFIGURATION,
                failure_policy=options.failure_policy,
                component="webhook",
            )
        ]
        for hook in further:
            configurations.append(hook.configuration)
            path = hook.configuration.secret_path_below
            every[path] = self._secret_route(path, _review_route(hook.review))
            threads[path] = hook.threads
        self._server = admission_server(options.port, advise=advise, routes=every, own_threads=threads)
        names = (*service_names(SERVICE, options.namespace), *hosts)
        self._keeper = CertificateKeeper(
            api,
            KeeperOptions(
                namespace=options.namespace,
                names=frozenset(names),
                configurations=tuple(configurations),
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

    def _secret_route(self, below: str, route: Route) -> Route:
        def answer(request: Request) -> Response:
            known = self._keeper.secret_path
            given = request.path.removeprefix(f"{below}/").encode(errors="replace")
            if not known or not hmac.compare_digest(given, known.encode()):
                return Response.of_text("there is nothing here", status=HTTPStatus.NOT_FOUND)
            return route(request)

        return answer


def admission_server(
    port: int,
    *,
    advise: Advise,
    routes: Mapping[str, Route] | None = None,
    own_threads: Mapping[str, int] | None = None,
) -> SecureServer:
    """Return the server of the admission webhook and of the routes beside it, still without a certificate.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        advise: Returns warnings about a claim.
        routes: The other routes, by path prefix.
        own_threads: How many threads such a path has of its own.

    Raises:
        NodeError: The port is taken.
    """
    every = {ADMISSION_PATH: _review_route(lambda body: review(body, advise))} | dict(routes or {})
    return SecureServer(port, every, own_threads={ADMISSION_PATH: _REVIEWS} | dict(own_threads or {}))


def _review_route(answer_to: Callable[[bytes], JsonObject]) -> Route:
    """Return the route of an admission webhook.

    Args:
        answer_to: Answers the body of a review; raises BadReviewError.
    """

    def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response.of_text("expected POST", status=HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return Response.of_json(answer_to(request.body))
        except BadReviewError as error:
            return Response.of_text(str(error), status=error.status)

    return answer
