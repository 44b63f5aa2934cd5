"""A cluster from files that ``kubectl get -o yaml`` or ``-o json`` wrote: to explain its claims without reaching it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from driver.adapters.input_file import path_name, read_input, unreadable
from driver.adapters.yaml_documents import printable
from driver.adapters.yaml_values import read_values
from driver.allocator.features import Features
from driver.errors import InputError
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState

__all__ = ["DUMP_COMMAND", "read_dumps"]

DUMP_COMMAND: Final = (
    "kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,pods,nodes -A -o json >DIR/all.json"
)
"""What makes such a dump; JSON is read six times as fast as YAML."""

_MAX_FILE_BYTES: Final = 1024**3
_MAX_FILES: Final = 10_000
_MAX_LISTS: Final = 8  # lists in lists
_WHAT: Final = "a file that kubectl get -o yaml or -o json wrote"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_RESOURCE: Final = "resource.k8s.io"
_VERSIONS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    # v1beta2 has the fields of v1 (k8s.io/api/resource); v1beta1 has not.
    ("ResourceSlice", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("DeviceClass", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("ResourceClaim", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("ResourceClaimTemplate", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("DeviceTaintRule", _RESOURCE): frozenset({"v1beta2", "v1alpha3"}),
    ("Pod", ""): frozenset({"v1"}),
    ("Node", ""): frozenset({"v1"}),
    ("NodeInventory", "rootport.dev"): frozenset({"v1alpha1"}),
}
_NEEDED: Final = {
    Kind.SLICE: "no device is known",
    Kind.CLASS: "every request's class is missing",
    Kind.NODE: "there is no node to place a pod on",
    Kind.POD: "no claim looks used",
}
_NAMESPACED: Final = frozenset({Kind.CLAIM, Kind.TEMPLATE, Kind.POD})


def read_dumps(path: Path, *, features: Features | None = None) -> ClusterState:
    """The cluster that a folder's .yaml, .yml and .json files show, also those in folders below it; or one file.

    Objects may come one by one, as several documents, or in lists; those of other kinds are passed over. Of an object
    that is there twice the last one counts, by the files' names.

    Args:
        path: The folder, or a file.
        features: Which features the cluster's scheduler has; None for Kubernetes' defaults.

    Raises:
        InputError: A file cannot be read, is no YAML or JSON, or none has an object that says anything of devices.
    """
    state = ClusterState(features=features)
    found: Counter[Kind] = Counter()
    left_out: Counter[str] = Counter()
    namespaces: set[str] = set()
    for file in _files(path):
        for wire in _objects(file):
            kind = _kind(wire, left_out)
            if kind is None:
                continue
            if not _has_name(wire):
                left_out[f"{kind.value} without a name"] += 1
                continue
            state.put(kind, wire)
            found[kind] += 1
            if kind in _NAMESPACED:
                namespaces.add(str(wire["metadata"].get("namespace", "")))
    if not found:
        raise InputError(f"{path_name(path)}: no object of a cluster that has to do with devices", hint=DUMP_COMMAND)
    state.notes.extend(f"{path_name(path)}: left out: {what} ({count})" for what, count in left_out.items())
    state.notes.extend(
        f"{path_name(path)} has no {kind.value}, so {meaning}: was it dumped?"
        for kind, meaning in _NEEDED.items()
        if not found[kind]
    )
    # Of a whole cluster the dump has the pods of kube-system at least.
    if len(namespaces) == 1:
        state.notes.append(
            f"{path_name(path)} has claims and pods of namespace {printable(*namespaces)} alone, so devices that claims"
            " of others have look free: was it dumped with -A?"
        )
    return state


def _files(path: Path) -> Iterator[Path]:
    try:
        if not path.is_dir():
            yield path
            return
        files: list[Path] = []
        # Links to folders are not followed: one could lead around in a circle.
        for folder, _, names in os.walk(path, onerror=_raise):
            files.extend(Path(folder, name) for name in names if Path(name).suffix in _SUFFIXES)
            if len(files) > _MAX_FILES:
                raise InputError(
                    f"{path_name(path)}: more than {_MAX_FILES} files", hint="name the folder of the dumps"
                )
    except OSError as error:
        raise unreadable(path, error, "a folder of such files") from error
    if not files:
        raise InputError(f"{path_name(path)}: no .yaml, .yml or .json file in this folder", hint=DUMP_COMMAND)
    yield from sorted(files)


def _raise(error: OSError) -> None:
    raise error


def _objects(file: Path) -> Iterator[Mapping[str, Any]]:
    source = path_name(file)
    data = read_input(file, _MAX_FILE_BYTES, _WHAT, too_large="dump fewer kinds into a file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: not UTF-8 text", hint=f"name {_WHAT}") from error
    del data
    for number, value in enumerate(read_values(text, source, is_json=file.suffix == ".json"), start=1):
        if not isinstance(value, dict):
            raise InputError(f"{source}: document {number} is no Kubernetes object", hint=f"name {_WHAT}")
        yield from _items(value, _MAX_LISTS)


def _items(value: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """The object itself, or what a list holds: the API server leaves kind and apiVersion out of a list's items."""
    kind, items = value.get("kind"), value.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or depth == 0:
        yield value
        return
    implied = {} if kind == "List" else {"kind": kind.removesuffix("List"), "apiVersion": value.get("apiVersion")}
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield from _items(implied | item, depth - 1)


def _kind(wire: Mapping[str, Any], left_out: Counter[str]) -> Kind | None:
    kind, api_version = wire.get("kind"), wire.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str):
        left_out["what has no kind or apiVersion"] += 1
        return None
    group, _, version = api_version.rpartition("/")
    versions = _VERSIONS.get((kind, group))
    if versions is None:
        return None
    if version not in versions:
        left_out[f"{kind} of {printable(api_version)}, which is not read (dump it as {min(versions, key=len)})"] += 1
        return None
    return Kind(kind)


def _has_name(wire: Mapping[str, Any]) -> bool:
    metadata = wire.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and bool(metadata["name"])
