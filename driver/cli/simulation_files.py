"""Makes the files of ``rootport simulate --out``: what a cluster's API server and nodes would hold."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from driver.cli.output import yaml_stream
from driver.explain.known.cluster import Kind
from driver.simulation import Simulation, objects_of, slice_json

__all__ = ["cdi_path", "result_files"]

_FILES: Final = {
    Kind.CLAIM: "claims.yaml",
    Kind.TEMPLATE: "resourceclaimtemplates.yaml",
    Kind.CLASS: "deviceclasses.yaml",
    Kind.POD: "pods.yaml",
    Kind.EVENT: "events.yaml",
}


def result_files(simulation: Simulation) -> dict[str, bytes]:
    """Return the files' contents by their relative paths.

    - ``claims.yaml``: every claim, with its allocation where it fits;
    - ``pods.yaml``: the pods that use them, and in ``events.yaml`` what keeps placed ones from starting;
    - ``resourceclaimtemplates.yaml`` and ``deviceclasses.yaml``;
    - ``nodes.json``: the nodes;
    - ``nodes/<node>/resourceslices.json``: what the node publishes;
    - ``nodes/<node>/cdi/<spec>.json``: what the node's ``/var/run/cdi`` would hold, one file a claim.

    What a large cluster has much of is JSON, which is written and read a hundred times as fast as YAML.

    A node's name is a DNS subdomain and a spec's file name is made of the claim's UID: no path is a claim's own text.
    """
    files: dict[str, bytes] = {}
    objects: defaultdict[Kind, list[dict[str, Any]]] = defaultdict(list)
    for kind, wire in objects_of(simulation):
        objects[kind].append(wire)
    for kind, name in _FILES.items():
        if objects[kind]:
            files[name] = yaml_stream(objects[kind]).encode()
    files["nodes.json"] = _list([json.dumps(node) for node in objects[Kind.NODE]])
    known: dict[tuple[int, int], str] = {}
    slices: defaultdict[str, list[str]] = defaultdict(list)
    for item in simulation.slices:
        slices[item.spec.pool.name].append(slice_json(item, known))
    for node, of_node in slices.items():
        files[f"nodes/{node}/resourceslices.json"] = _list(of_node)
    for outcome in simulation.outcomes:
        if outcome.node is not None and outcome.plan is not None and outcome.plan.spec is not None:
            files[cdi_path(outcome.node, outcome.plan.spec.file_name)] = outcome.plan.spec.to_json()
    return files


def cdi_path(node: str, file_name: str) -> str:
    """Return the path of a CDI spec below ``--out``."""
    return f"nodes/{node}/cdi/{file_name}"


def _list(items: list[str]) -> bytes:
    """Return a List that ``kubectl apply -f`` takes."""
    return ('{"apiVersion": "v1", "kind": "List", "items": [\n' + ",\n".join(items) + "\n]}\n").encode()
