"""The options of ``rootport-controller`` about compatibility, and what they start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from driver.adapters.command_line import options_together
from driver.adapters.kubernetes.api import KubernetesApi
from driver.status.device_share import DOMAINS

if TYPE_CHECKING:
    from controller.compatibility.service import Compatibility, LabelsOption

__all__ = ["compatibility", "compatibility_options"]

compatibility_options: Final = options_together(
    click.option(
        "--pod-annotations",
        type=click.Choice(("off", *DOMAINS)),
        default="off",
        show_default=True,
        help="Write Koordinator's annotation scheduling.koordinator.sh/device-allocated on pods that have devices, for "
        "tools that read it: with the resources' names of today (koordinator.sh), or of Koordinator's first releases. "
        "It needs what resourceclasses/components/pod-annotations installs.",
    ),
    click.option(
        "--node-labels",
        type=click.Choice(("off", "on", "remove")),
        default="off",
        show_default=True,
        help="Label Nodes with their GPUs' model, number, memory and driver, by the names of Koordinator and of "
        "NVIDIA's GPU Feature Discovery; labels of others are left as they are. remove takes all of them off again. It "
        "needs what resourceclasses/components/node-labels installs.",
    ),
)
"""Adds the options to a command."""


def compatibility(api: KubernetesApi, pod_annotations: str, node_labels: LabelsOption) -> Compatibility | None:
    """Return what writes the annotations and the labels; None if both are off.

    Args:
        api: The API server.
        pod_annotations: As given on the command line.
        node_labels: Likewise.
    """
    if pod_annotations == node_labels == "off":
        return None
    # Imported here, because most do without it.
    from controller.compatibility.service import Compatibility  # noqa: PLC0415

    return Compatibility(api, annotations="" if pod_annotations == "off" else pod_annotations, labels=node_labels)
