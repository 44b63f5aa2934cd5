"""The forms in which ``rootport slices`` prints a node's slices, and the list of the instance types that it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import click

from driver.api.resource_v1 import ResourceSlice
from driver.cli.grid import print_grid
from driver.cli.output import to_json, to_yaml, yaml_stream
from driver.cli.render import console
from driver.layout.templates import cluster_autoscaler_template, karpenter_template

__all__ = ["SliceFormat", "in_format", "print_instance_types"]


class SliceFormat(StrEnum):
    """What the slices are for."""

    YAML = "yaml"
    KARPENTER = "karpenter"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"


_FOR_PROVIDERS: Final = {
    SliceFormat.KARPENTER: (
        "Karpenter takes such templates from its cloud provider's code alone (v1.15: InstanceType.DynamicResources), "
        "not from a NodeOverlay or another object: this is for whoever builds or patches a provider"
    ),
    SliceFormat.CLUSTER_AUTOSCALER: (
        "the cluster autoscaler takes these objects from its cloud provider's code alone (TemplateNodeInfo), not from "
        "the API server: do not apply them"
    ),
}


def in_format(
    slices: Sequence[ResourceSlice], form: SliceFormat, output: str, *, instance_type: str, node: str
) -> tuple[str, tuple[str, ...]]:
    """Return the slices as text, and notes for the reader.

    Args:
        slices: What the node publishes.
        form: What for.
        output: ``yaml`` or ``json``.
        instance_type: The instance type's name.
        node: The node's name.
    """
    if form is SliceFormat.KARPENTER:
        template, lost = karpenter_template(slices, instance_type)
        notes = (f"Karpenter's templates have no place for {', '.join(lost)}",) if lost else ()
        return to_json(template) if output == "json" else to_yaml(template), (_FOR_PROVIDERS[form], *notes)
    objects = [resource_slice.to_wire() for resource_slice in slices]
    if form is SliceFormat.CLUSTER_AUTOSCALER:
        objects = cluster_autoscaler_template(slices, instance_type, node)
    note = (_FOR_PROVIDERS[form],) if form in _FOR_PROVIDERS else ()
    return _objects(objects, output), note


def _objects(objects: Iterable[dict[str, Any]], output: str) -> str:
    if output == "json":
        return to_json({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    return yaml_stream(objects)


def print_instance_types(output: str | None) -> None:
    """Print the catalogue of instance types: a table, or as ``json`` or ``yaml`` all that it says."""
    from driver.adapters.machines.instance_types import instance_types, read_instance_type  # noqa: PLC0415 - rarely needed

    known = instance_types()
    if output:
        data = [
            {"name": name, "gpuModel": of.named.gpu_model}
            | of.facts.model_dump(mode="json", by_alias=True, include={"cloud", "sources", "checked", "not_known"})
            for name, of in known.items()
        ]
        click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
        return
    rows = []
    for name, of in known.items():
        read = read_instance_type(name, node="node")
        below = Counter(device.pcie.root or "" for device in (*read.gpus, *read.nics))
        shape = f"{len(below)} PCIe roots" if all(below) else "no PCIe roots"
        numa = len({device.pcie.numa_node for device in read.gpus})
        rows.append(
            [name, of.facts.cloud, f"{len(read.gpus)} {of.named.gpu_model}", str(len(read.nics)), shape, str(numa)]
        )
    print_grid(console(), ["INSTANCE TYPE", "CLOUD", "GPUS", "NICS", "BELOW", "NUMA NODES"], rows)
