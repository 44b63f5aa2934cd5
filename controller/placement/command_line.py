"""The option of ``rootport-controller`` about placement, and what it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from driver.adapters.kubernetes.api import KubernetesApi
from driver.model.managed_nodes import LABEL, MANAGED, POLICY_NAMES

if TYPE_CHECKING:
    from controller.placement.service import PlacementService
    from driver.allocator.features import Features

__all__ = ["placement_option", "placement_service"]

placement_option: Final = click.option(
    "--placement",
    "policy",
    type=click.Choice(("none", *POLICY_NAMES)),
    default="none",
    show_default=True,
    help=f"Allocate the devices of nodes with the label {LABEL}={MANAGED}, by this policy: pack leaves as few GPUs as "
    "possible that pods cannot use, spread keeps nodes evenly used, first-fit takes the first node by name, to compare "
    "with (kube-scheduler by itself does not: it spreads pods). kube-scheduler then binds the pods. With none it "
    "allocates everything, and the label means nothing. It needs what resourceclasses/components/placement installs.",
)
"""Adds the option to a command."""


def placement_service(
    api: KubernetesApi,
    policy: str,
    *,
    identity: str,
    instance: str,
    may_write: Callable[[], bool],
    features: Features | None = None,
) -> PlacementService | None:
    """Return what places pods; None with the policy ``none``.

    Args:
        api: The API server.
        policy: As given on the command line.
        identity: The identity in the leader Lease.
        instance: The reporting instance of Events.
        may_write: Returns whether this process leads for sure.
        features: The feature gates of the cluster; None for Kubernetes' defaults.
    """
    if policy == "none":
        return None
    # Imported here, because only this needs the allocator and CEL.
    from controller.placement.service import PlacementService  # noqa: PLC0415

    return PlacementService(
        api, policy=policy, identity=identity, instance=instance, may_write=may_write, features=features
    )
