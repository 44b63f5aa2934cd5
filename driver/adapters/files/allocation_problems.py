"""Reads allocation problems as JSON, one per line, and writes the allocator's answers.

The format is that of tests/data/conformance (README there): a problem has ``id``; ``node`` or ``nodes``, tried in
order; ``classes``, ``slices``, ``claims`` and ``allocatedClaims`` as objects of resource.k8s.io/v1; ``features``, by
default all on; ``raw`` if objects are to be taken without the API's defaults. An answer has ``id``, ``node``,
``result`` (AllocationResults, one per claim; null if nothing fits) and ``error`` (null if there is none).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, JsonValue, StrictBool, ValidationError

from driver.adapters.files.input_file import open_input, path_name, unreadable
from driver.allocator import ALL_FEATURES, AllocationError, Allocator, Features
from driver.api.resource_v1 import DeviceClass, Node, ResourceClaim, ResourceSlice, Wire
from driver.api.validation.defaults import with_defaults
from driver.api.validation.wording import first_error
from driver.bounded_json import JsonError, parse_json
from driver.errors import InputError

__all__ = ["AllocationProblem", "answer", "answer_file"]

_MAX_LINE_BYTES: Final = 256 * 1024**2
"""Bounds what one problem may take in memory."""

_WHAT: Final = "a file of problems, one JSON object a line"


class _FeatureFlags(Wire):
    """Features by upstream's names; a missing one is on."""

    admin_access: StrictBool = Field(default=ALL_FEATURES.admin_access, alias="AdminAccess")
    consumable_capacity: StrictBool = Field(default=ALL_FEATURES.consumable_capacity, alias="ConsumableCapacity")
    device_binding_and_status: StrictBool = Field(
        default=ALL_FEATURES.device_binding_and_status, alias="DeviceBindingAndStatus"
    )
    device_taints: StrictBool = Field(default=ALL_FEATURES.device_taints, alias="DeviceTaints")
    fractional_capacity_range: StrictBool = Field(
        default=ALL_FEATURES.fractional_capacity_range, alias="FractionalCapacityRange"
    )
    list_type_attributes: StrictBool = Field(default=ALL_FEATURES.list_type_attributes, alias="ListTypeAttributes")
    partitionable_devices: StrictBool = Field(default=ALL_FEATURES.partitionable_devices, alias="PartitionableDevices")
    prioritized_list: StrictBool = Field(default=ALL_FEATURES.prioritized_list, alias="PrioritizedList")


class AllocationProblem(Wire):
    """An allocation problem. Other fields of a line (the expected answer, tags) are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: str
    node: Node | None = None
    nodes: tuple[Node, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    allocated_claims: tuple[ResourceClaim, ...] = ()
    features: _FeatureFlags = _FeatureFlags()
    raw: StrictBool = False


def answer(problem: AllocationProblem) -> dict[str, JsonValue]:
    """Return the allocator's answer to a problem, as JSON types."""
    nodes = ((problem.node,) if problem.node is not None else ()) + problem.nodes
    claims = problem.claims if problem.raw else tuple(with_defaults(claim) for claim in problem.claims)
    given: dict[str, JsonValue] = {"id": problem.id, "node": None, "result": None, "error": None}
    try:
        features = Features(**problem.features.model_dump())
        allocator = Allocator(problem.slices, problem.classes, allocated=problem.allocated_claims, features=features)
        fit = allocator.allocate_first(nodes, claims)
    except AllocationError as error:
        given["error"] = str(error)
    else:
        if fit is not None:
            given |= {"node": fit.node.metadata.name, "result": [result.to_wire() for result in fit.results]}
    return given


def answer_file(path: Path) -> Iterator[str]:
    """Yield the answers to all problems of a file, as lines of JSON without their ends, while the file is read.

    A problem with an object that is not valid for the API is answered with an error.

    Raises:
        InputError: The file cannot be read, or a line is no JSON object with an ``id``; the message has the line's
            number.
    """
    name = path_name(path)
    try:
        with open_input(path, _WHAT) as lines:
            for number, line in enumerate(iter(partial(lines.readline, _MAX_LINE_BYTES + 1), b""), start=1):
                if len(line) > _MAX_LINE_BYTES:
                    raise InputError(f"{name}:{number}: longer than {_MAX_LINE_BYTES // 1024**2} MiB")
                if line.strip():
                    given = _answer_line(line, f"{name}:{number}")
                    yield json.dumps(given, sort_keys=True, separators=(",", ":"))
    except OSError as error:
        raise unreadable(path, error, _WHAT) from error


def _answer_line(line: bytes, where: str) -> dict[str, JsonValue]:
    try:
        document: Any = parse_json(line, max_bytes=_MAX_LINE_BYTES)
    except JsonError as error:
        raise InputError(f"{where}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("id"), str):
        raise InputError(f"{where}: is not a problem: expected a JSON object with an id")
    try:
        problem = AllocationProblem.model_validate(document)
    except ValidationError as error:
        return {"id": document["id"], "node": None, "result": None, "error": f"{where}: {first_error(error)}"}
    return answer(problem)
