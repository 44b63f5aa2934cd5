"""What the controller serves by HTTPS, put together: routes, and the certificate that goes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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

__all__ = ["SERVICE", "HttpsOptions", "https_server"]

SERVICE = "rootport-dashboard"
"""The Service that leads to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsOptions:
    """What a person may choose.

    Attributes:
        port: TCP port, on all addresses; 0 for any free one.
        namespace: Where the Services are.
        hosts: Further DNS names and IP addresses that clients reach it by.
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
) -> HttpsServer:
    """The server, not started.

    Args:
        api: Asks who calls, and whether they may.
        options: Where and how.
        overview: The nodes.
        explanations: What explains; None for nothing.
        problem: Why this controller cannot show the cluster now; empty where it can.
        pages: By path, such as ``/metrics``: what is shown to who may get that path.

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
    # Not before: it costs some megabytes that a controller without it does not pay.
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
    )
