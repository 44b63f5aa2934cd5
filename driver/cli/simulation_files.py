"""What ``rootport simulate --out`` writes: what a cluster's API server and nodes would hold."""

from __future__ import annotations

from collections import defaultdict

from driver.cli.output import yaml_stream
from driver.simulation import Simulation

__all__ = ["cdi_path", "result_files"]


def result_files(simulation: Simulation) -> dict[str, bytes]:
    """Relative path → content.

    - ``claims.yaml``: every claim, with its allocation where it fits;
    - ``nodes/<node>/resourceslices.yaml``: what the node publishes;
    - ``nodes/<node>/cdi/<spec>.json``: what the node's ``/var/run/cdi`` would hold, one file a claim.

    A node's name is a DNS subdomain and a spec's file name is made of the claim's UID: no path is a claim's own text.
    """
    files: dict[str, bytes] = {}
    if simulation.outcomes:
        files["claims.yaml"] = yaml_stream(outcome.claim.to_wire() for outcome in simulation.outcomes).encode()
    slices = defaultdict(list)
    for resource_slice in simulation.slices:
        slices[resource_slice.spec.node_name].append(resource_slice.to_wire())
    for node, of_node in slices.items():
        files[f"nodes/{node}/resourceslices.yaml"] = yaml_stream(of_node).encode()
    for outcome in simulation.outcomes:
        if outcome.node is not None and outcome.plan is not None and outcome.plan.spec is not None:
            files[cdi_path(outcome.node, outcome.plan.spec.file_name)] = outcome.plan.spec.to_json()
    return files


def cdi_path(node: str, file_name: str) -> str:
    """Where a CDI spec lies below ``--out``."""
    return f"nodes/{node}/cdi/{file_name}"
