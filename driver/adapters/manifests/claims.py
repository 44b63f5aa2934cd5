"""Reads ResourceClaims, ResourceClaimTemplates and DeviceClasses from the files a user would ``kubectl apply``.

Every error names the file, the line and the field, all errors of a file at once. Fields are checked as strictly as
``kubectl apply --validate=strict`` does: unknown and duplicate fields are errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from driver.adapters.files.document import Document, Problem, ProblemKind, printable
from driver.adapters.files.validated import mistakes
from driver.adapters.files.yaml_documents import read_documents
from driver.adapters.manifests.files import MAX_FILE_BYTES, ManifestFile, find_files
from driver.adapters.manifests.kustomizations import patch_files
from driver.adapters.manifests.objects import (
    ClaimManifest,
    ClassManifest,
    Manifests,
    PodManifest,
    field_problem,
    find_duplicates,
)
from driver.api.pod_templates import pod_specs
from driver.api.resource_v1 import API_VERSION, DeviceClass, ResourceClaim, ResourceClaimTemplate
from driver.api.validation.claims import validate_claim, validate_claim_template, validate_device_class
from driver.api.validation.defaults import with_defaults
from driver.api.validation.errors import FieldError, unknown_field
from driver.api.validation.wording import in_words, known_fields
from driver.errors import InputError
from driver.spelling import close_matches

__all__ = [
    "MAX_FILE_BYTES",
    "ClaimManifest",
    "ClassManifest",
    "Manifests",
    "PodManifest",
    "read_all_manifests",
    "read_manifest_text",
    "read_manifests",
]

_MAX_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all files together."""
_MOST_PROBLEMS: Final = 100
"""The most problems of one file that are listed; more are counted."""
_OF_AN_OBJECT: Final = re.compile(r"""\b(?:apiVersion|kind|metadata)\b["']?\s*:""")
"""A field that only Kubernetes objects have, unlike a chart's values: a file with it was meant as an object."""
_NAME_REQUIRED: Final = (
    "is required (generateName gives a name only when the object is created; write a name to simulate it)"
)

_GROUP: Final = API_VERSION.partition("/")[0]
_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_ITEM_KINDS: Final = {(API_VERSION, f"{kind}List"): kind for kind in _KINDS}
_MISTAKEN_KINDS: Final = {kind.lower(): kind for kind in (*_KINDS, *(kind for _, kind in _ITEM_KINDS))}
_OTHER_KINDS: Final = frozenset(
    f"{kind}{end}" for kind in ("ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest") for end in ("", "List")
)
"""The other kinds of the group (k8s.io/api/resource), which resemble ours but are no misspellings."""

_OLD_KINDS: Final = {"ResourceClass": "DeviceClass", "ResourceClassList": "DeviceClassList"}
"""Kinds of v1alpha2, the first form of DRA (Kubernetes 1.26 to 1.30)."""

_EXACTLY: Final = (
    "since v1beta2 what a request asks for stands in its field exactly: requests[].exactly.deviceClassName"
)
_OLD_FORMS: Final = {
    "v1alpha2": "its form of DRA is gone: write a request with deviceClassName and CEL selectors",
    "v1alpha3": _EXACTLY,
    "v1beta1": _EXACTLY,
    "v1beta2": "the fields are the same",
}

_Object = TypeVar("_Object", ResourceClaim, ResourceClaimTemplate, DeviceClass)


def read_manifests(paths: Sequence[Path]) -> Manifests:
    """Read files, and the .yaml, .yml and .json files directly in folders, sorted; all must be valid.

    Raises:
        InputError: A file cannot be read, is too large, is no YAML, or has objects that the API server would refuse.
    """
    manifests = Manifests()
    for file in find_files(paths, recursive=False):
        _add_text(manifests, file.read(), file.source)
        _refuse(manifests)
    find_duplicates(manifests)
    _refuse(manifests)
    return manifests


def read_manifest_text(text: str, source: str) -> Manifests:
    """Read a stream of documents that is not a user's file, such as the DeviceClasses of the package."""
    manifests = Manifests()
    _add_text(manifests, text, source)
    _refuse(manifests)
    return manifests


def read_all_manifests(paths: Sequence[Path]) -> Manifests:
    """Read what is valid in files, and in folders with all folders below; the rest becomes ``problems``.

    A file of a folder without any Kubernetes object (a chart's values, a compiler's settings) is only counted, and so
    is one that a kustomization in the folder of one of the files names as a patch.

    Args:
        paths: Files and folders; ``-`` is standard input.

    Raises:
        InputError: A named path does not exist, or standard input has no document.
    """
    manifests = Manifests()
    left = _MAX_BYTES
    files = list(find_files(paths, recursive=True, left_out=manifests.own_folders))
    patches = patch_files(dict.fromkeys(file.path.parent for file in files if not file.is_standard_input))
    for file in files:
        if os.path.realpath(file.path) in patches:
            manifests.patches += 1
            continue
        if not file.is_standard_input:
            manifests.paths[file.source] = file.path
        try:
            text = file.read()
        except InputError as error:
            message = error.message.removeprefix(f"{file.source}:").lstrip()
            manifests.problems.append(
                Problem(kind=ProblemKind.UNREADABLE, source=file.source, message=message, hint=error.hint or "")
            )
            continue
        left -= len(text)
        if left < 0:
            message = f"not read: the files before it have {_MAX_BYTES // 1024**2} MiB"
            manifests.problems.append(Problem(kind=ProblemKind.UNREADABLE, source=file.source, message=message))
            break
        manifests.texts[file.source] = text
        before = len(manifests.documents) + len(manifests.problems)
        _add_file(manifests, file, text)
        if file.is_standard_input and len(manifests.documents) + len(manifests.problems) == before:
            # In a pipeline the command before us may have failed, and a shell reports our exit code alone.
            raise InputError(
                f"{file.source}: there is no document in it",
                hint="did the command before the pipe fail? With `set -o pipefail` the shell reports that",
            )
    find_duplicates(manifests)
    return manifests


def _add_file(manifests: Manifests, file: ManifestFile, text: str) -> None:
    before, objects, documents = len(manifests.problems), _count(manifests), len(manifests.documents)
    _add_text(manifests, text, file.source)
    found = manifests.problems[before:]
    has_objects = _count(manifests) > objects or (
        any(problem.kind is not ProblemKind.NOT_AN_OBJECT for problem in found) and _OF_AN_OBJECT.search(text)
    )
    if found and not file.is_named and not has_objects:
        del manifests.problems[before:], manifests.documents[documents:], manifests.texts[file.source]
        manifests.not_manifests += 1
    elif len(found) > _MOST_PROBLEMS:
        rest = replace(found[_MOST_PROBLEMS - 1], message=f"and {len(found) - _MOST_PROBLEMS + 1} more", hint="")
        manifests.problems[before + _MOST_PROBLEMS - 1 :] = [rest]


def _count(manifests: Manifests) -> int:
    return len(manifests.claims) + len(manifests.classes) + sum(manifests.ignored.values())


def _refuse(manifests: Manifests) -> None:
    if manifests.problems:
        raise InputError.of_all([str(problem) for problem in manifests.problems])


def _add_text(manifests: Manifests, text: str, source: str) -> None:
    for document in read_documents(text, source, manifests.problems.append):
        for item in document.items(_ITEM_KINDS, manifests.problems.append):
            manifests.documents.append(item)
            manifests.problems += _add_object(manifests, item)


def _add_object(manifests: Manifests, document: Document) -> Sequence[Problem]:
    kind, version = document.data.get("kind"), document.data.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return [_not_an_object(document, kind, version)]
    group, _, number = version.rpartition("/")
    if group != _GROUP or kind in _OTHER_KINDS:
        return _ignore(manifests, document, kind, version)
    if version != API_VERSION:
        return [_old_version(document, kind, number)]
    problems: Sequence[Problem]
    match kind:
        case "ResourceClaim":
            claim, problems = _parse(document, ResourceClaim, validate_claim)
            if claim is not None:
                manifests.claims.append(ClaimManifest(_in_namespace(claim), from_template=False, document=document))
        case "ResourceClaimTemplate":
            template, problems = _parse(document, ResourceClaimTemplate, validate_claim_template)
            if template is not None:
                claim = ResourceClaim(
                    api_version=API_VERSION,
                    kind="ResourceClaim",
                    metadata=template.metadata,
                    spec=template.spec.spec,
                )
                manifests.claims.append(ClaimManifest(_in_namespace(claim), from_template=True, document=document))
        case "DeviceClass":
            device_class, problems = _parse(document, DeviceClass, validate_device_class)
            if device_class is not None:
                manifests.classes.append(ClassManifest(device_class, document))
        case _:
            return _ignore(manifests, document, kind, version)
    return problems


def _not_an_object(document: Document, kind: object, version: object) -> Problem:
    ours = kind in _KINDS or (isinstance(version, str) and version.rpartition("/")[0] == _GROUP)
    return document.problem(
        ("kind",),
        "not a Kubernetes object: kind and apiVersion must both be there",
        kind=ProblemKind.INVALID_OBJECT if ours else ProblemKind.NOT_AN_OBJECT,
    )


def _old_version(document: Document, kind: str, number: str) -> Problem:
    """Return the problem of an object of a version that is no longer served, or not yet."""
    version = f"{_GROUP}/{printable(number[:80])}"
    now = _OLD_KINDS.get(kind)
    message = f"{version} is not supported: write {API_VERSION} (Kubernetes 1.34)"
    if now is not None:
        message = f"{version} {kind} is not supported: write {API_VERSION} {now} (Kubernetes 1.34)"
    hint = "" if kind in ("DeviceClass", "DeviceClassList", *_OLD_KINDS) else _OLD_FORMS.get(number, "")
    return document.problem(("apiVersion",), message, kind=ProblemKind.OLD_VERSION, hint=hint)


def _ignore(manifests: Manifests, document: Document, kind: str, version: str) -> Sequence[Problem]:
    """Count an object of another kind; or return a problem if it is one of ours with a misspelled kind or group."""
    near_kind = close_matches(kind[:80].lower(), _MISTAKEN_KINDS, cutoff=0.8)
    group = version[:80].rpartition("/")[0]  # empty: the core group, which has none of our kinds
    near_group = not group or bool(close_matches(group.lower(), [_GROUP], cutoff=0.75))
    if not near_kind or not near_group or kind in _OTHER_KINDS:
        shown_kind = printable(kind[:80])
        manifests.ignored[shown_kind] = manifests.ignored.get(shown_kind, 0) + 1
        manifests.pods += [PodManifest(pod, document) for pod in pod_specs(document.data) if pod.asks_for_devices]
        return ()
    meant = _MISTAKEN_KINDS[near_kind[0]]
    wrong, value = ("kind", kind) if kind != meant else ("apiVersion", version)
    message = f"{printable(value[:80])} is not known; did you mean kind {meant} of apiVersion {API_VERSION}?"
    return [document.problem((wrong,), message)]


def _in_namespace(claim: ResourceClaim) -> ResourceClaim:
    if claim.metadata.namespace:
        return claim
    return claim.model_copy(update={"metadata": claim.metadata.model_copy(update={"namespace": "default"})})


def _parse(
    document: Document, model: type[_Object], validate: Callable[[_Object], Sequence[FieldError]]
) -> tuple[_Object | None, list[Problem]]:
    try:
        parsed = with_defaults(model.model_validate(document.data, by_alias=True, by_name=False))
    except ValidationError as error:
        found = mistakes(document, error, model, _describe)
        return None, [document.problem(loc, message) for loc, message in found]
    problems = [field_problem(document, problem) for problem in validate(parsed)]
    if parsed.metadata.generate_name and not parsed.metadata.name:
        problems.append(document.problem(("metadata", "name"), _NAME_REQUIRED))
    return (None, problems) if problems else (parsed, [])


def _describe(details: ErrorDetails, model: type[BaseModel] | None) -> str:
    if details["type"] != "extra_forbidden" or model is None:
        return in_words(details)
    *around, name = details["loc"]
    known = known_fields(model, around)
    inside = next((field for field in known if name in known_fields(model, (*around, field))), None)
    if inside is not None:
        return f"unknown field; in {API_VERSION} it belongs in {inside}: write {inside}.{name}"
    return unknown_field(name, known)
