"""What prepares claims, put together: what it decides with, and what it does on the host."""

from __future__ import annotations

from typing import Final

from kubeletplugin.claims.planner import ClaimPlanner
from kubeletplugin.claims.preparer import Preparer
from kubeletplugin.claims.reader import ClaimReader
from kubeletplugin.effects import HostEffects
from kubeletplugin.effects.mig import MigDevices
from kubeletplugin.effects.mps import MpsDaemons
from kubeletplugin.effects.time_slice import TimeSlices
from kubeletplugin.network.node_network import NodeNetwork
from kubeletplugin.node.discovery import Discovery
from kubeletplugin.node.roots import Roots
from kubeletplugin.options import Options
from kubeletplugin.state.store import ClaimStore

__all__ = ["make_planner", "make_preparer"]

_RUNTIME_FOLDER: Final = "/run/rootport"


def make_planner(options: Options, roots: Roots, *, store: ClaimStore, network: NodeNetwork) -> ClaimPlanner:
    """Return what decides how claims are prepared.

    Args:
        options: The plugin's options.
        roots: Where the host's files are.
        store: The claims that are prepared.
        network: Hands VFs and interfaces to pods.
    """
    return ClaimPlanner(
        roots,
        metadata_dir=store.metadata_dir,
        # Programs of a driver in a container of its own see that container's files alone.
        runtime_root=f"{roots.driver_root}{_RUNTIME_FOLDER}",
        hami_core=options.hami_core,
        gpu_policies=options.gpu_policies,
        has_cni_plugin=network.has_cni_plugin,
    )


def make_preparer(
    planner: ClaimPlanner,
    roots: Roots,
    *,
    store: ClaimStore,
    network: NodeNetwork,
    discovery: Discovery,
    get_claim: ClaimReader,
) -> Preparer:
    """Return what prepares claims.

    Args:
        planner: Decides how.
        roots: Where the host's files are.
        store: The claims that are prepared.
        network: Hands VFs and interfaces to pods.
        discovery: What the node has.
        get_claim: Reads a claim from the API server.
    """
    effects = HostEffects(
        mig=MigDevices(roots),
        time_slices=TimeSlices(roots),
        mps=MpsDaemons(roots),
        vfs=network.vfs,
        interfaces=network.interfaces,
    )
    return Preparer(
        store=store,
        inventory=discovery.inventory,
        get_claim=get_claim,
        host=roots.host,
        planner=planner,
        effects=effects,
    )
