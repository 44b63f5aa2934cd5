"""Puts the conversion of pods together as a webhook for the controller's HTTPS server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller.admission.certificate_keeper import FailurePolicy, KeptConfiguration
from controller.admission.webhook import SecretWebhook
from controller.conversion.claims import ClaimReviews
from controller.conversion.counts import ConversionCounter
from controller.conversion.reviews import OnRefusal, PodReviews
from controller.conversion.templates import Templates
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from driver.convert import DEFAULT, Settings
from driver.ratios import Sizes

__all__ = [
    "CLAIM_CONFIGURATION",
    "CONFIGURATION",
    "REQUEST_S",
    "ConversionOptions",
    "claim_webhook",
    "conversion_webhook",
]

CONFIGURATION: Final = "rootport-convert"
"""The MutatingWebhookConfiguration's name."""

CLAIM_CONFIGURATION: Final = "rootport-convert-claims"
"""Likewise of the webhook for claims: another one, because its failure policy is its own."""

_CONVERT_PATH: Final = "/convert"
_CLAIMS_PATH: Final = "/convert-claims"
"""Below these is where the API server sends its reviews."""

REQUEST_S: Final = 3.0
"""The time limit of a request about templates: the API server waits 10 seconds for the answer to its review."""

_REVIEWS: Final = 4  # at once: most of a review's time is the API server's, for templates
_CLAIM_REVIEWS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOptions:
    """The settings of the conversion.

    Attributes:
        settings: Returns how to convert now.
        on_refusal: What becomes of a pod that cannot be converted.
        failure_policy: What becomes of pods while no controller answers, or templates cannot be created.
    """

    settings: Callable[[], Settings] = lambda: DEFAULT
    on_refusal: OnRefusal = "deny"
    failure_policy: FailurePolicy = "Fail"


def claim_webhook(sizes: Callable[[], Sizes], counts: ConversionCounter) -> SecretWebhook:
    """Return the webhook that writes percentages in claims as lists of amounts.

    While no controller answers, claims are admitted as they are (``Ignore``): a percentage can be allocated as it is.
    Its path is secret, because what it answers tells the sizes of the cluster's devices.

    Args:
        sizes: Returns the sizes of the cluster's devices.
        counts: Counts the claims.
    """
    return SecretWebhook(
        configuration=KeptConfiguration(
            resource=MUTATING_WEBHOOK_CONFIGURATIONS,
            name=CLAIM_CONFIGURATION,
            failure_policy="Ignore",
            component="convert-webhook",
            secret_path_below=_CLAIMS_PATH,
        ),
        review=ClaimReviews(sizes, counts),
        threads=_CLAIM_REVIEWS,
    )


def conversion_webhook(api: KubernetesApi, options: ConversionOptions, counts: ConversionCounter) -> SecretWebhook:
    """Return the webhook.

    Args:
        api: With the rights of ``resourceclasses/components/convert-webhook``, and :data:`REQUEST_S` as time limit.
        options: The settings.
        counts: Counts the pods and the templates.
    """
    return SecretWebhook(
        configuration=KeptConfiguration(
            resource=MUTATING_WEBHOOK_CONFIGURATIONS,
            name=CONFIGURATION,
            failure_policy=options.failure_policy,
            component="convert-webhook",
            secret_path_below=_CONVERT_PATH,
        ),
        review=PodReviews(
            Templates(api, counts),
            counts,
            options.settings,
            on_refusal=options.on_refusal,
            failure_policy=options.failure_policy,
        ),
        threads=_REVIEWS,
    )
