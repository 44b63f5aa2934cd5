# ruff: noqa: INP001 - a script, in no package
"""Writes resourceclasses/crd from the models in driver/api/rootport_v1alpha1.py.

A CustomResourceDefinition needs a *structural* schema: no references, no titles, no null types (pkg/apiserver/schema in
k8s.io/apiextensions-apiserver v0.36.3). Descriptions are the models' docstrings, so that ``kubectl explain`` prints
them.

Usage: ``python tools/generate_crds.py`` writes the files; with ``--check`` it only reports whether they are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import yaml
from pydantic import BaseModel

from driver.api import API_VERSION, rootport_v1alpha1

FOLDER: Final = Path(__file__).resolve().parents[1] / "resourceclasses" / "crd"
HEADER: Final = "# Made by tools/generate_crds.py from driver/api/rootport_v1alpha1.py: change that and run it again.\n"

_GROUP, _VERSION = API_VERSION.split("/")
_ATTRIBUTE: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)
_DROPPED: Final = frozenset({"$defs", "additionalProperties", "default", "title"})
_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``; one with a priority above 0 is for ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the column as a CRD has it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        return column | ({"priority": self.priority} if self.priority else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """A kind of the API group.

    Attributes:
        initial_status: The default status of an object without one.
    """

    model: type[BaseModel]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    initial_status: Mapping[str, Any] | None = None


_CONDITION: Final = '.status.conditions[?(@.type=="Ready")].'
KINDS: Final = (
    CustomKind(
        model=rootport_v1alpha1.NodeInventory,
        plural="nodeinventories",
        short_names=("ninv",),
        columns=(
            Column(name="GPUs", path=".spec.counts.gpus", type="integer"),
            Column(name="NICs", path=".spec.counts.nics", type="integer"),
            Column(name="VFs", path=".spec.counts.vfs", type="integer"),
            Column(name="FPGAs", path=".spec.counts.fpgas", type="integer"),
            Column(name="Source", path=".spec.source"),
            Column(
                name="Ready",
                path=f"{_CONDITION}status",
                description="What the node's plugin says of itself; Unknown once nothing is heard of it.",
            ),
            Column(
                name="Published",
                path='.status.conditions[?(@.type=="Published")].status',
                description="Whether the node's devices are in ResourceSlices; False for a node that is silent.",
            ),
            Column(name="Reason", path=f"{_CONDITION}reason", priority=1),
            Column(name="Plugin", path=".status.pluginVersion", priority=1),
            Column(name="Age", path=".metadata.creationTimestamp", type="date"),
        ),
    ),
    CustomKind(
        model=rootport_v1alpha1.Device,
        plural="devices",
        short_names=("rpdev",),
        # The name tells node, type and PCI address: their columns would break the line on a terminal.
        columns=(
            Column(name="Model", path=".spec.model"),
            Column(name="State", path=".status.state", description="Healthy, Unhealthy or Unknown."),
            Column(name="Mode", path=".status.mode", description="How it is given now: whole, shared, ratio or mig."),
            Column(
                name="Core%",
                path=".status.allocated.core",
                type="integer",
                description="How many percent of its core are allocated.",
            ),
            Column(name="Used", path=".status.allocated.memory", description="How much of its memory is allocated."),
            Column(
                name="Free",
                path=".status.largestFree.memory",
                description="How much of its memory one more claim can get.",
            ),
            Column(
                name="Reason",
                path='.status.conditions[?(@.type=="Healthy")].reason',
                priority=1,
                description="Why it is in this state.",
            ),
            Column(name="Memory", path=".spec.memory", priority=1),
            Column(name="Type", path=".spec.type", priority=1),
            Column(
                name="Switch",
                path=".spec.pcieSwitch",
                priority=1,
                description="The nearest PCIe switch shared with a card.",
            ),
            Column(name="NUMA", path=".spec.numaNode", type="integer", priority=1),
            Column(name="Node", path=".spec.nodeName", priority=1),
            Column(name="PCI", path=".spec.pciBusID", priority=1),
            Column(name="Root", path=".spec.pcieRoot", priority=1),
            Column(name="RDMA", path=".spec.rdmaDevice", priority=1),
            Column(name="Bandwidth", path=".status.allocated.bandwidth", priority=1),
            Column(name="VFs", path=".status.allocated.vfs", type="integer", priority=1),
            Column(name="UUID", path=".spec.uuid", priority=1),
            Column(name="Left-Out", path=".spec.leftOut", priority=1),
        ),
        initial_status={"state": "Unknown"},
    ),
)


def custom_resource_definition(kind: CustomKind) -> dict[str, Any]:
    """Return the CRD of a kind."""
    name = kind.model.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{_GROUP}", "labels": {"app.kubernetes.io/part-of": "rootport"}},
        "spec": {
            "group": _GROUP,
            "scope": "Cluster",
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": kind.plural,
                "singular": name.lower(),
                "shortNames": list(kind.short_names),
                "categories": ["rootport"],
            },
            "versions": [
                {
                    "name": _VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.to_wire() for column in kind.columns],
                    "schema": {"openAPIV3Schema": _with_initial_status(structural_schema(kind.model), kind)},
                }
            ],
        },
    }


def _with_initial_status(schema: dict[str, Any], kind: CustomKind) -> dict[str, Any]:
    if kind.initial_status is not None:
        schema["properties"]["status"]["default"] = dict(kind.initial_status)
    return schema


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's schema as a CRD may have it."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    # The API server knows the metadata, and lets a CRD say nothing about its fields.
    schema["properties"]["metadata"] = {"type": "object"}
    made = _structural(schema, definitions, model)
    fixed = {
        "apiVersion": {"type": "string", "description": f"The version of this object's form: {_GROUP}/{_VERSION}."},
        "kind": {"type": "string", "description": f"{model.__name__}."},
        "metadata": {"type": "object"},
    }
    made["properties"] |= fixed
    return made


def _structural(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], model: type[BaseModel] | None
) -> dict[str, Any]:
    """Inline references, and keep only what a structural schema may have.

    Args:
        schema: The JSON schema of a value.
        definitions: The schemas that its references name.
        model: The model that the schema was made from; None for a plain value.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        inlined = _structural(definitions[name], definitions, getattr(rootport_v1alpha1, name))
        return inlined | _structural({key: item for key, item in schema.items() if key != "$ref"}, definitions, None)
    if "anyOf" in schema:
        # A model has None for absent fields; the API server does not store null.
        (written,) = (option for option in schema["anyOf"] if option != {"type": "null"})
        return _structural({**written, **{k: v for k, v in schema.items() if k != "anyOf"}}, definitions, None)
    made = {key: item for key, item in schema.items() if key not in _DROPPED}
    if model is not None:
        summary, fields = _documentation(model)
        made["description"] = summary
        made["properties"] = {
            name: _structural(item, definitions, None) | _described(fields, name, model)
            for name, item in schema["properties"].items()
        }
    if "items" in made:
        made["items"] = _structural(made["items"], definitions, None)
    if made.get("type") == "integer":
        made["format"] = "int64" if made.get("maximum", _INT64) > 2**31 - 1 else "int32"
        # JSON numbers are floats to the API server's schema: it would round this bound, which the format has anyway.
        if made.get("maximum") == _INT64:
            del made["maximum"]
    return made


def _described(fields: Mapping[str, str], name: str, model: type[BaseModel]) -> dict[str, str]:
    text = next(
        (fields[field] for field, info in model.model_fields.items() if info.alias == name and field in fields), None
    )
    if text is None and name not in ("apiVersion", "kind", "metadata", "spec", "status"):
        raise KeyError(f"{model.__name__}: its docstring does not describe {name}")
    return {} if text is None else {"description": text}


def _documentation(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """Return a model's summary, and its fields' descriptions by attribute, those of base models included."""
    fields: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.__module__ == rootport_v1alpha1.__name__:
            _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
            fields |= {match[1]: " ".join(match[2].split()) for match in _ATTRIBUTE.finditer(attributes)}
    summary = inspect.cleandoc(model.__doc__ or "").partition("\nAttributes:\n")[0]
    return " ".join(summary.split()), fields


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: a reader should see each schema where it applies."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def files() -> dict[Path, str]:
    """Return every file with its content."""
    return {
        FOLDER / f"{kind.plural}.{_GROUP}.yaml": HEADER
        + yaml.dump(custom_resource_definition(kind), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
        for kind in KINDS
    }


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a file is not up to date.")
def main(*, check: bool) -> None:
    """Write the CRDs of rootport.dev/v1alpha1."""
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        click.echo(
            f"not up to date: {', '.join(path.name for path in stale)}: run python {Path(__file__).name}", err=True
        )
        sys.exit(1)
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(files()[path], encoding="utf-8")
        click.echo(f"wrote {path.name}")


if __name__ == "__main__":
    main()
