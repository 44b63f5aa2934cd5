"""Reads ResourceClaims, ResourceClaimTemplates and DeviceClasses from the files a user would ``kubectl apply``.

Every error names the file, the line and the field, all errors of a file at once. Fields are checked as strictly as
``kubectl apply --validate=strict`` does: unknown and duplicate fields are errors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from driver.adapters.input_file import path_name, read_input, unreadable
from driver.adapters.yaml_documents import Document, printable, read_documents
from driver.api.resource_v1 import API_VERSION, DeviceClass, ResourceClaim, ResourceClaimTemplate, Wire
from driver.api.validation import (
    FieldError,
    validate_claim,
    validate_claim_template,
    validate_device_class,
    with_defaults,
)
from driver.errors import InputError

__all__ = ["MAX_FILE_BYTES", "ClaimManifest", "ClassManifest", "Manifests", "read_manifest_text", "read_manifests"]

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
"""An API object holds at most 1.5 MiB (etcd's request limit); a file of several is still far below this."""

_WHAT: Final = "a file of manifests (YAML or JSON)"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_NAME_REQUIRED: Final = (
    "is required (generateName gives a name only when the object is created; write a name to simulate it)"
)
_PATH_STEP: Final = re.compile(r"\[(\d+)\]|\[\"([^\"]*)\"\]|([^.\[\]]+)")

_GROUP: Final = API_VERSION.partition("/")[0]
_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_ITEM_KINDS: Final = {(API_VERSION, f"{kind}List"): kind for kind in _KINDS}
_MISTAKEN_KINDS: Final = {kind.lower(): kind for kind in (*_KINDS, *(kind for _, kind in _ITEM_KINDS))}
_OTHER_KINDS: Final = frozenset({"ResourceSlice", "ResourceSliceList", "DeviceTaintRule", "DeviceTaintRuleList"})
"""The other kinds of the group (k8s.io/api/resource), near to ours in spelling and yet no mistake."""

_Object = TypeVar("_Object", ResourceClaim, ResourceClaimTemplate, DeviceClass)


@dataclass(frozen=True, slots=True)
class ClaimManifest:
    """A claim to allocate, from a ResourceClaim or made from a ResourceClaimTemplate.

    Attributes:
        claim: The claim with the API's defaults.
        from_template: Whether it stands for the claims of a template.
        document: Where it was written.
    """

    claim: ResourceClaim
    from_template: bool
    document: Document

    def message(self, error: FieldError) -> str:
        """An error in the claim, with its file and line; ``error.path`` is the claim's, also for a template."""
        return self.document.error(_steps(self.written_path(error.path)), error.message)

    def written_path(self, path: str) -> str:
        """A field of the claim as it stands in the file: a template has the claim's spec in its own."""
        return f"spec.{path}" if self.from_template and path.startswith("spec.") else path

    def line(self, path: str) -> int:
        """The line of a field of the claim, or of the nearest thing around it that was written."""
        return self.document.line(_steps(self.written_path(path)))


@dataclass(frozen=True, slots=True)
class ClassManifest:
    """A DeviceClass, and where it was written."""

    device_class: DeviceClass
    document: Document

    def message(self, error: FieldError) -> str:
        """An error in the class, with its file and line."""
        return self.document.error(_steps(error.path), error.message)

    def written_path(self, path: str) -> str:
        """A field of the class as it stands in the file."""
        return path

    def line(self, path: str) -> int:
        """The line of a field, or of the nearest thing around it that was written."""
        return self.document.line(_steps(path))


@dataclass(slots=True)
class Manifests:
    """What the given files hold.

    Attributes:
        claims: Claims and templates in the order of the files.
        classes: DeviceClasses, likewise.
        ignored: How many objects of other kinds were passed over, by kind.
    """

    claims: list[ClaimManifest] = field(default_factory=list)
    classes: list[ClassManifest] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)


def read_manifests(paths: Sequence[Path]) -> Manifests:
    """Read files, and the .yaml, .yml and .json files directly in folders, in sorted order.

    Raises:
        InputError: A file cannot be read, is too large, is no YAML, or holds objects that the API server would refuse.
    """
    manifests = Manifests()
    for path in _files(paths):
        _add_file(manifests, _read(path), path_name(path))
    _refuse_duplicates(manifests)
    return manifests


def read_manifest_text(text: str, source: str) -> Manifests:
    """Read one document stream that does not come from a user's file, such as the DeviceClasses of the package."""
    manifests = Manifests()
    _add_file(manifests, text, source)
    return manifests


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        try:
            folder = path.is_dir()
            found = sorted(c for c in path.iterdir() if c.suffix in _SUFFIXES and c.is_file()) if folder else [path]
        except OSError as error:
            raise unreadable(path, error, _WHAT) from error
        if not found:
            raise InputError(f"{path_name(path)}: no .yaml, .yml or .json file in this folder")
        yield from found


def _read(path: Path) -> str:
    data = read_input(
        path,
        MAX_FILE_BYTES,
        _WHAT,
        too_large="split it into several files of one folder",
    )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path_name(path)}:{line}: not UTF-8 text", hint="is this a YAML or JSON file?") from error


def _add_file(manifests: Manifests, text: str, source: str) -> None:
    errors: list[str] = []
    for document in read_documents(text, source):
        for item in document.items(_ITEM_KINDS):
            errors.extend(_add_object(manifests, item))
    if errors:
        raise InputError.of_all(errors)


def _add_object(manifests: Manifests, document: Document) -> list[str]:
    kind, version = document.data.get("kind"), document.data.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return [document.error(("kind",), "not a Kubernetes object: kind and apiVersion must both be there")]
    if version.partition("/")[0] != _GROUP:
        return _pass_over(manifests, document, kind, version)
    if version != API_VERSION:
        return [
            document.error(
                ("apiVersion",), f"{printable(version)} is not supported: write {API_VERSION} (Kubernetes 1.34)"
            )
        ]
    match kind:
        case "ResourceClaim":
            claim, errors = _parse(document, ResourceClaim, validate_claim)
            if claim is not None:
                manifests.claims.append(ClaimManifest(_in_namespace(claim), from_template=False, document=document))
        case "ResourceClaimTemplate":
            template, errors = _parse(document, ResourceClaimTemplate, validate_claim_template)
            if template is not None:
                claim = ResourceClaim(
                    api_version=API_VERSION,
                    kind="ResourceClaim",
                    metadata=template.metadata,
                    spec=template.spec.spec,
                )
                manifests.claims.append(ClaimManifest(_in_namespace(claim), from_template=True, document=document))
        case "DeviceClass":
            device_class, errors = _parse(document, DeviceClass, validate_device_class)
            if device_class is not None:
                manifests.classes.append(ClassManifest(device_class, document))
        case _:
            return _pass_over(manifests, document, kind, version)
    return errors


def _pass_over(manifests: Manifests, document: Document, kind: str, version: str) -> list[str]:
    """Count an object of another kind; or an error where it is one of ours with a slip in its kind or group."""
    near_kind = difflib.get_close_matches(kind.lower(), _MISTAKEN_KINDS, n=1, cutoff=0.8)
    group = version.rpartition("/")[0]  # empty: the core group, which has none of our kinds
    near_group = not group or bool(difflib.get_close_matches(group.lower(), [_GROUP], cutoff=0.75))
    if not near_kind or not near_group or kind in _OTHER_KINDS:
        shown_kind = printable(kind)
        manifests.ignored[shown_kind] = manifests.ignored.get(shown_kind, 0) + 1
        return []
    meant = _MISTAKEN_KINDS[near_kind[0]]
    wrong, value = ("kind", kind) if kind != meant else ("apiVersion", version)
    message = f"{printable(value)} is not known; did you mean kind {meant} of apiVersion {API_VERSION}?"
    return [document.error((wrong,), message)]


def _in_namespace(claim: ResourceClaim) -> ResourceClaim:
    if claim.metadata.namespace:
        return claim
    return claim.model_copy(update={"metadata": claim.metadata.model_copy(update={"namespace": "default"})})


def _refuse_duplicates(manifests: Manifests) -> None:
    first: dict[tuple[str, str, str], Document] = {}
    for claim, document in ((manifest.claim, manifest.document) for manifest in manifests.claims):
        _refuse_second(first, (document.kind, claim.metadata.namespace, claim.metadata.name), document)
    for manifest in manifests.classes:
        _refuse_second(first, (manifest.document.kind, "", manifest.device_class.metadata.name), manifest.document)
    _refuse_same_uids(manifests.claims)


def _refuse_same_uids(claims: Sequence[ClaimManifest]) -> None:
    first: dict[str, ClaimManifest] = {}
    for manifest in claims:
        uid = manifest.claim.metadata.uid
        earlier = first.setdefault(uid, manifest) if uid else manifest
        if earlier is not manifest:
            other = earlier.claim.metadata
            message = f"uid {printable(uid[:80])} is already that of {other.namespace}/{other.name} at "
            raise InputError(
                manifest.document.error(("metadata", "uid"), message + earlier.document.where),
                hint="leave the uid out; the API server gives each object its own",
            )


def _refuse_second(first: dict[tuple[str, str, str], Document], key: tuple[str, str, str], document: Document) -> None:
    earlier = first.setdefault(key, document)
    if earlier is not document:
        name = "/".join(part for part in key[1:] if part)
        raise InputError(
            f"{document.where}: {key[0]} {name} is already defined at {earlier.where}",
            hint="give one of the two another name",
        )


def _parse(
    document: Document, model: type[_Object], validate: Callable[[_Object], Sequence[FieldError]]
) -> tuple[_Object | None, list[str]]:
    try:
        parsed = with_defaults(model.model_validate(document.data, by_alias=True, by_name=False))
    except ValidationError as error:
        found = sorted(error.errors(include_url=False), key=lambda details: document.line(details["loc"]))
        return None, [document.error(details["loc"], _describe(details, model)) for details in found]
    problems = [document.error(_steps(problem.path), problem.message) for problem in validate(parsed)]
    if parsed.metadata.generate_name and not parsed.metadata.name:
        problems.append(document.error(("metadata", "name"), _NAME_REQUIRED))
    return (None, problems) if problems else (parsed, [])


def _describe(details: Any, model: type[Wire]) -> str:
    if details["type"] != "extra_forbidden":
        return str(details["msg"][0].lower() + details["msg"][1:])
    known = _fields_at(model, details["loc"][:-1])
    near = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
    if near:
        return f"unknown field; did you mean {near[0]}?"
    return f"unknown field; known here: {', '.join(sorted(known))}" if known else "unknown field"


@cache
def _json_schema(model: type[Wire]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _fields_at(model: type[Wire], loc: Sequence[str | int]) -> list[str]:
    """The field names that the model knows at a place, read from its JSON schema."""
    schema = _json_schema(model)
    here: Any = schema
    for step in (None, *loc):
        if step is not None:
            here = (
                here.get("items", here.get("additionalProperties", {}))
                if isinstance(step, int)
                else (here.get("properties", {}).get(step) or here.get("additionalProperties") or {})
            )
        while isinstance(here, dict):
            if "$ref" in here:
                here = schema["$defs"][here["$ref"].rpartition("/")[2]]
            elif "anyOf" in here:
                here = next((option for option in here["anyOf"] if option.get("type") != "null"), {})
            else:
                break
        if not isinstance(here, dict):
            return []
    return list(here.get("properties", {}))


def _steps(path: str) -> tuple[str | int, ...]:
    return tuple(int(i) if i else quoted or name for i, quoted, name in _PATH_STEP.findall(path))
