"""Reads a cluster from files that ``kubectl get -o yaml`` or ``-o json`` wrote, to explain its claims offline."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from driver.adapters.files.input_file import path_name, read_input, unreadable
from driver.adapters.files.output_folder import MARKER
from driver.adapters.files.yaml_documents import printable
from driver.adapters.files.yaml_values import read_values
from driver.allocator.features import Features
from driver.errors import InputError
from driver.explain.known.cluster import Kind
from driver.explain.known.reading import DEFAULT_NAMESPACE, object_key
from driver.explain.known.state import ClusterState
from driver.status.observation import Observation, ObservationBuilder

__all__ = ["DUMP_COMMAND", "each_dumped_object", "read_dumps", "read_observed_dump"]

DUMP_COMMAND: Final = (
    "kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,pods,nodes -A -o json >DIR/all.json"
)
"""The command that makes such a dump; JSON is read several times as fast as YAML."""

_OBSERVED: Final = ("Device", "NodeInventory")
_OBSERVED_VERSION: Final = "rootport.dev/v1alpha1"
_OBSERVED_COMMAND: Final = "kubectl get devices.rootport.dev,nodeinventories -o json >DIR/rootport.json"

_MAX_FILE_BYTES: Final = 1024**3
_MAX_FILES: Final = 10_000
_MOST_NOTED: Final = 3
_MAX_LISTS: Final = 8  # lists in lists
_WHAT: Final = "a file that kubectl get -o yaml or -o json wrote"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_RESOURCE: Final = "resource.k8s.io"
_VERSIONS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    # v1beta2 has the fields of v1 (k8s.io/api/resource); v1beta1 has not. Of a template the name alone is read.
    ("ResourceSlice", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("DeviceClass", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("ResourceClaim", _RESOURCE): frozenset({"v1", "v1beta2"}),
    ("ResourceClaimTemplate", _RESOURCE): frozenset({"v1", "v1beta2", "v1beta1", "v1alpha3"}),
    ("DeviceTaintRule", _RESOURCE): frozenset({"v1", "v1beta2", "v1alpha3"}),
    ("Pod", ""): frozenset({"v1"}),
    ("Node", ""): frozenset({"v1"}),
    ("Event", ""): frozenset({"v1"}),
    ("NodeInventory", "rootport.dev"): frozenset({"v1alpha1"}),
    ("Lease", "coordination.k8s.io"): frozenset({"v1"}),
}
_NEEDED: Final = {
    Kind.SLICE: "no device is known",
    Kind.CLASS: "every request's class is missing",
    Kind.NODE: "there is no node to place a pod on",
    Kind.POD: "no claim looks used",
    Kind.CLAIM: "no claim is known",
}
_PLURALS: Final = {Kind.CLASS: "deviceclasses", Kind.INVENTORY: "nodeinventories"}
_NAMESPACED: Final = frozenset({Kind.CLAIM, Kind.TEMPLATE, Kind.POD})


def read_dumps(
    path: Path,
    *,
    kinds: Collection[Kind] = tuple(Kind),
    features: Features | None = None,
    seen: Callable[[], None] = lambda: None,
) -> ClusterState:
    """Return the cluster that one file shows, or a folder's .yaml, .yml and .json files, nested ones too.

    Objects may come one by one, as several documents, or in lists; other kinds are ignored. If an object occurs twice
    the last one counts, by the files' names.

    Args:
        path: The folder, or a file.
        kinds: The kinds to read; objects of other kinds are ignored.
        features: The features of the cluster's scheduler; None for Kubernetes' defaults.
        seen: Called for each object.

    Raises:
        InputError: A file cannot be read, is no YAML or JSON, or none has an object that concerns devices.
    """
    state = ClusterState(features=features)
    found: Counter[Kind] = Counter()
    left_out: Counter[str] = Counter()
    namespaces: set[str] = set()
    for file in _files(path):
        for item in _objects(file, state.notes):
            seen()
            kind = _kind(item, left_out)
            if kind is None or kind not in kinds:
                continue
            if not _has_name(item):
                left_out[f"{kind.value} without a name"] += 1
                state.left_out.add_unnamed(kind, 1)
                continue
            wire = _in_namespace(kind, item)
            found[kind] += 1
            if _is_read(kind, wire):
                state.put(kind, wire)
            else:
                why = f"{_version(wire)}, which is not read: {_command(kind)}"
                left_out[f"{kind.value} of {why}"] += 1
                state.leave_out(kind, object_key(wire), f"the dump has it as {why}", wire)
            if kind in _NAMESPACED:
                namespaces.add(str(wire["metadata"].get("namespace", "")))
    if not found:
        raise InputError(f"{path_name(path)}: no object of a cluster that has to do with devices", hint=DUMP_COMMAND)
    state.notes[:0] = [f"{path_name(path)}: left out: {what} ({count})" for what, count in left_out.items()]
    # What `rootport simulate --out` wrote is all that there is of its cluster.
    is_whole = path.is_dir() and (path / MARKER).is_file()
    expected = (*_NEEDED, Kind.TEMPLATE)  # a cluster may well have no template
    state.missing = frozenset(kind for kind in expected if kind in kinds and not found[kind] and not is_whole)
    state.notes.extend(
        f"{path_name(path)} has no {kind.value}, so {meaning}: was it dumped?"
        for kind, meaning in _NEEDED.items()
        if kind in state.missing
    )
    # The dump of a whole cluster has at least the pods of kube-system.
    if len(namespaces) == 1 and not is_whole:
        state.notes.append(
            f"{path_name(path)} has claims and pods of namespace {printable(*namespaces)} alone, so devices that claims"
            " of others have look free: was it dumped with -A?"
        )
    return state


def read_observed_dump(path: Path, *, node: str | None = None, seen: Callable[[], None] = lambda: None) -> Observation:
    """Return the Device objects and NodeInventories in such files.

    In a folder, a file that cannot be read is left out with a note: what the others contain is as true without it. That
    does not hold for an explanation, so :func:`read_dumps` refuses such a folder.

    Args:
        path: The folder, or a file.
        node: Read only this node.
        seen: Called for each object.

    Raises:
        InputError: The file, or every file, cannot be read or is no YAML or JSON; no file has such an object; or there
            is no such node.
    """
    notes: list[str] = []
    builder = ObservationBuilder(node)
    found: Counter[str] = Counter()
    broken = 0
    unread: list[InputError] = []
    for file in _files(path):
        try:
            for wire in _objects(file, notes):
                seen()
                kind = wire.get("kind")
                if kind not in _OBSERVED or wire.get("apiVersion") != _OBSERVED_VERSION or not _has_name(wire):
                    continue
                found[kind] += 1
                try:
                    (builder.add_device if kind == "Device" else builder.add_inventory)(wire)
                except (AttributeError, TypeError, ValueError):
                    broken += 1
        except InputError as error:
            unread.append(error)
    missing = [kind for kind in _OBSERVED if not found[kind]]
    if len(missing) == len(_OBSERVED):
        if unread:
            raise unread[0]
        raise InputError(
            f"{path_name(path)}: there is no Device and no NodeInventory of rootport.dev in it", hint=_OBSERVED_COMMAND
        )
    notes += [f"left out: {error.message}" for error in unread[:_MOST_NOTED]]
    notes += [f"left out: {len(unread) - _MOST_NOTED} more files that cannot be read"][: len(unread) > _MOST_NOTED]
    notes += [f"{path_name(path)} has no {kind}: was it dumped? {_OBSERVED_COMMAND}" for kind in missing]
    if broken:
        notes.append(f"{path_name(path)}: left out: NodeInventory that no API server would store ({broken})")
    return builder.result(is_selected=False, notes=tuple(notes))


def each_dumped_object(path: Path, notes: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of one file, or of a folder's .yaml, .yml and .json files, nested ones too, of any kind.

    Args:
        path: The folder, or a file.
        notes: Gets a note for what was left out.

    Raises:
        InputError: A file cannot be read, or is no YAML or JSON.
    """
    for file in _files(path):
        yield from _objects(file, notes)


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


def _objects(file: Path, notes: list[str]) -> Iterator[Mapping[str, Any]]:
    source = path_name(file)
    data = read_input(file, _MAX_FILE_BYTES, _WHAT, too_large="dump fewer kinds into a file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: not UTF-8 text", hint=f"name {_WHAT}") from error
    del data
    for number, value in enumerate(read_values(text, source, notes=notes, is_json=file.suffix == ".json"), start=1):
        if not isinstance(value, dict):
            raise InputError(f"{source}: document {number} is no Kubernetes object", hint=f"name {_WHAT}")
        yield from _items(value, _MAX_LISTS)


def _items(value: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the object itself, or a list's items: the API server leaves kind and apiVersion out of those."""
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
    if "cdiVersion" in wire:
        return None  # a node's CDI spec, as rootport simulate --out writes them beside the objects
    if not isinstance(kind, str) or not isinstance(api_version, str):
        left_out["what has no kind or apiVersion"] += 1
        return None
    return Kind(kind) if (kind, api_version.rpartition("/")[0]) in _VERSIONS else None


def _in_namespace(kind: Kind, wire: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object with a namespace: an object of a manifest may name none."""
    if kind not in _NAMESPACED or wire["metadata"].get("namespace"):
        return wire
    return {**wire, "metadata": {**wire["metadata"], "namespace": DEFAULT_NAMESPACE}}


def _is_read(kind: Kind, wire: Mapping[str, Any]) -> bool:
    group, _, version = wire["apiVersion"].rpartition("/")
    return version in _VERSIONS[kind.value, group]


def _version(wire: Mapping[str, Any]) -> str:
    return printable(wire["apiVersion"][:80])


def _command(kind: Kind) -> str:
    """Return the command that dumps objects of the kind in a version that is read."""
    group, version = next(
        (group, min(versions, key=len)) for (name, group), versions in _VERSIONS.items() if name == kind.value
    )
    plural = _PLURALS.get(kind, f"{kind.value.lower()}s")
    everywhere = " -A" if kind in _NAMESPACED else ""
    return f"kubectl get {plural}{f'.{version}.{group}' if group else ''}{everywhere} -o json"


def _has_name(wire: Mapping[str, Any]) -> bool:
    metadata = wire.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and bool(metadata["name"])
