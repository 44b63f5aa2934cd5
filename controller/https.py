"""Composes the HTTPS server of the controller: its routes, and the certificate that goes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.admission.certificate_keeper import FailurePolicy
from controller.api.routes import api_routes
from controller.explanations.service import Explanations
from controller.lifecycle import HttpsServer
from controller.overview.store import Overview
from controller.serving.callers import Callers
from controller.serving.names import certificate_host, service_names
from controller.serving.self_signed import SelfSigned
from controller.serving.static_files import dashboard_routes
from driver.adapters.http.exchange import Route
from driver.adapters.http.probe_server import Page
from driver.adapters.kubernetes.api import KubernetesApi

if TYPE_CHECKING:
    from controller.admission.webhook import SecretWebhook

__all__ = ["SERVICE", "HttpsOptions", "https_server"]

SERVICE = "rootport-dashboard"
"""The Service that selects the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsOptions:
    """The settings of the HTTPS server.

    Attributes:
        port: TCP port, on all addresses; 0 for any free one.
        namespace: The namespace of the Services.
        hosts: Further DNS names and IP addresses of the server.
        webhook_failure_policy: What the API server does while no controller answers; None for no webhook.
    """

    port: int
    namespace: str
    hosts: tuple[str, ...] = ()
    webhook_failure_policy: FailurePolicy | None = None


def https_server(
    api: KubernetesApi,
    options: HttpsOptions,
    *,
    overview: Overview,
    explanations: Explanations | None,
    problem: Callable[[], str],
    pages: Mapping[str, Page],
    conversions: Sequence[SecretWebhook] = (),
) -> HttpsServer:
    """Return the server, not started.

    Args:
        api: The API server, which is asked about callers and their rights.
        options: The settings.
        overview: The nodes.
        explanations: Explains claims and pods; None to explain nothing.
        problem: Returns why this controller cannot show the cluster now; empty if it can.
        pages: Pages by the path that callers must have the right to get, such as ``/metrics``.
        conversions: The webhooks that convert pods and claims, beside the other webhook.

    Raises:
        InputError: One of the hosts is no DNS name and no IP address.
        NodeError: The port is taken.
    """
    routes: Mapping[str, Route] = {
        **dashboard_routes(),
        **api_routes(overview, explanations, callers=Callers(api), problem=problem, pages=pages),
    }
    names = service_names(SERVICE, options.namespace)
    if options.webhook_failure_policy is None:
        hosts = [certificate_host(host) for host in options.hosts]
        return SelfSigned(options.port, names=[*names, "localhost", "127.0.0.1", *hosts], routes=routes)
    # Imported here, because it costs some megabytes of memory.
    from controller.admission.advice import Advisor  # noqa: PLC0415
    from controller.admission.webhook import Webhook, WebhookOptions  # noqa: PLC0415

    return Webhook(
        api,
        WebhookOptions(
            port=options.port,
            namespace=options.namespace,
            hosts=(*names, *options.hosts),
            failure_policy=options.webhook_failure_policy,
        ),
        advise=Advisor(api),
        routes=routes,
        further=conversions,
    )
