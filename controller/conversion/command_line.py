"""The options of ``rootport-controller`` about the conversion of pods, and what they start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from controller.conversion.counts import ConversionCounter
from driver.adapters.command_line import options_together
from driver.adapters.kubernetes.api import KubernetesApi

if TYPE_CHECKING:
    from controller.admission.certificate_keeper import FailurePolicy
    from controller.admission.webhook import SecretWebhook
    from controller.conversion.collector import TemplateCollector
    from controller.conversion.reviews import OnRefusal

__all__ = ["conversion_options", "conversion_webhooks", "template_collector"]

conversion_options: Final = options_together(
    click.option(
        "--convert/--no-convert",
        default=False,
        show_default=True,
        help="Serve the webhooks that convert pods and claims of the namespaces labelled rootport.dev/convert=enabled "
        "as they are created: what pods ask of device plugins becomes claims, and percentages in claims become lists "
        "of amounts. It needs --webhook, and what "
        "resourceclasses/components/convert-webhook installs.",
    ),
    click.option(
        "--convert-refused",
        type=click.Choice(("deny", "admit")),
        default="deny",
        show_default=True,
        help="What becomes of a pod there that cannot be converted: it is denied, with each field and what to write, "
        "or admitted as it is, with warnings.",
    ),
    click.option(
        "--convert-failure-policy",
        type=click.Choice(("Ignore", "Fail")),
        default="Fail",
        show_default=True,
        help="What becomes of pods there that ask for devices while no controller answers: Fail refuses them, Ignore "
        "admits them unconverted. Kept in the MutatingWebhookConfiguration.",
    ),
    click.option(
        "--convert-resources",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A ResourceMap, in YAML, for --convert: which resources of RDMA and SR-IOV device plugins are which NICs. "
        "Read as --gpu-policies is.",
    ),
)
"""Adds the options to a command."""


def template_collector(api: KubernetesApi, counts: ConversionCounter | None) -> TemplateCollector | None:
    """Return what deletes the templates of converted pods; None if none are converted.

    Args:
        api: The API server.
        counts: Counts what is collected; None if no pods are converted.
    """
    if counts is None:
        return None
    # Imported here, because only this and the webhook need the converter.
    from controller.conversion.collector import TemplateCollector  # noqa: PLC0415

    return TemplateCollector(api, counts)


def conversion_webhooks(
    connect: Callable[..., KubernetesApi],
    counts: ConversionCounter | None,
    *,
    resources: Path | None,
    on_refusal: OnRefusal,
    failure_policy: FailurePolicy,
) -> tuple[SecretWebhook, ...]:
    """Return the webhooks that convert pods and claims; none if nothing is converted.

    Args:
        connect: Connects to the API server, with a time limit for each request.
        counts: Counts pods and templates; None if no pods are converted.
        resources: The ResourceMap's file; None for none.
        on_refusal: What becomes of a pod that cannot be converted.
        failure_policy: What becomes of pods while no controller answers.

    Raises:
        InputError: The ResourceMap is not valid, or its folder does not exist.
    """
    if counts is None:
        return ()
    # Imported here: as above.
    from controller.conversion.known_sizes import KnownSizes  # noqa: PLC0415
    from controller.conversion.resource_map import ResourceMapInForce  # noqa: PLC0415
    from controller.conversion.webhook import (  # noqa: PLC0415
        REQUEST_S,
        ConversionOptions,
        claim_webhook,
        conversion_webhook,
    )
    from driver.adapters.kubernetes.device_sizes import read_sizes  # noqa: PLC0415

    options = ConversionOptions(
        settings=ResourceMapInForce(resources).settings, on_refusal=on_refusal, failure_policy=failure_policy
    )
    known = KnownSizes(partial(read_sizes, connect()))
    known.start(threading.Event())  # until the process ends
    return conversion_webhook(connect(timeout_s=REQUEST_S), options, counts), claim_webhook(known.sizes, counts)
