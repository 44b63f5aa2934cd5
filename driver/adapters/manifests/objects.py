"""The objects of manifests, each with its place in a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from driver.adapters.files.document import Document, Problem, ProblemKind, printable
from driver.api.pod_templates import PodSpec
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.api.validation.errors import FieldError

__all__ = ["ClaimManifest", "ClassManifest", "Manifests", "PodManifest", "field_problem", "find_duplicates"]

_PATH_STEP: Final = re.compile(r"\[(\d+)\]|\[\"([^\"]*)\"\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class ClaimManifest:
    """A claim to allocate, from a ResourceClaim or made from a ResourceClaimTemplate.

    Attributes:
        claim: The claim with the API's defaults.
        from_template: Whether it stands for the claims of a template.
        document: The object of the file.
    """

    claim: ResourceClaim
    from_template: bool
    document: Document

    def message(self, error: FieldError) -> str:
        """Return an error in the claim with its file and line; ``error.path`` is a claim's, also for a template."""
        return str(field_problem(self.document, FieldError(self.written_path(error.path), error.message)))

    def written_path(self, path: str) -> str:
        """Return a claim's field as the file has it: a template has the claim's spec in its own."""
        return f"spec.{path}" if self.from_template and path.startswith("spec.") else path

    def line(self, path: str) -> int:
        """Return the line of a field of the claim, or of the nearest enclosing one that was written."""
        return self.document.line(_steps(self.written_path(path)))


@dataclass(frozen=True, slots=True)
class ClassManifest:
    """A DeviceClass of a file."""

    device_class: DeviceClass
    document: Document

    def message(self, error: FieldError) -> str:
        """Return an error in the class, with its file and line."""
        return str(field_problem(self.document, error))

    def written_path(self, path: str) -> str:
        """Return a field of the class as the file has it."""
        return path

    def line(self, path: str) -> int:
        """Return the line of a field, or of the nearest enclosing one that was written."""
        return self.document.line(_steps(path))


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A pod or pod template that asks for devices.

    Attributes:
        pod: The pod's spec.
        document: The object that it is part of.
    """

    pod: PodSpec
    document: Document

    def line(self, path: str) -> int:
        """Return the line of a field of the object, or of the nearest enclosing one that was written."""
        return self.document.line(_steps(path))


@dataclass(slots=True)
class Manifests:
    """The objects of the files, and what could not be used of them.

    Attributes:
        claims: Claims and templates in the order of the files.
        classes: DeviceClasses in the order of the files.
        pods: Pods and pod templates that ask for devices, in the order of the files.
        ignored: The number of objects of other kinds, by kind.
        problems: What could not be used, in the order of the files.
        not_manifests: The number of files in folders that contain no Kubernetes object.
        patches: The number of files that were not read, as they are patches of a kustomization.
        paths: The files by their names in messages; not standard input.
        texts: What the files contain, by their names in messages.
        own_folders: Folders that were left out because rootport wrote them.
        documents: All objects, those of other kinds among them, in the order of the files.
    """

    claims: list[ClaimManifest] = field(default_factory=list)
    classes: list[ClassManifest] = field(default_factory=list)
    pods: list[PodManifest] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    not_manifests: int = 0
    patches: int = 0
    paths: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    own_folders: list[Path] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)


def find_duplicates(manifests: Manifests) -> None:
    """Add a problem for each object that has the name or the UID of an earlier one."""
    first: dict[tuple[str, str, str], Document] = {}
    uids: dict[str, ClaimManifest] = {}
    for manifest in manifests.claims:
        metadata, document = manifest.claim.metadata, manifest.document
        same = first.setdefault((document.kind, metadata.namespace, metadata.name), document)
        if same is not document:
            manifests.problems.append(_defined_twice(document, same, f"{metadata.namespace}/{metadata.name}"))
            continue
        earlier = uids.setdefault(metadata.uid, manifest) if metadata.uid else manifest
        if earlier is not manifest:
            manifests.problems.append(_same_uid(manifest, earlier))
    for device_class in manifests.classes:
        document, name = device_class.document, device_class.device_class.metadata.name
        same = first.setdefault((document.kind, "", name), document)
        if same is not document:
            manifests.problems.append(_defined_twice(document, same, name))


def _defined_twice(document: Document, earlier: Document, name: str) -> Problem:
    is_same = document.data == earlier.data
    message = f"{document.kind} {name} is already defined at {earlier.where}" + (
        "" if is_same else ", with other fields"
    )
    problem = document.problem((), message, kind=ProblemKind.DUPLICATE_OBJECT, hint="give one of the two another name")
    return replace(problem, item=None, is_harmless=is_same)


def _same_uid(manifest: ClaimManifest, earlier: ClaimManifest) -> Problem:
    other = earlier.claim.metadata
    message = f"uid {printable(other.uid[:80])} is already that of {other.namespace}/{other.name} at "
    return manifest.document.problem(
        ("metadata", "uid"),
        message + earlier.document.where,
        hint="leave the uid out; the API server gives each object its own",
    )


def field_problem(document: Document, error: FieldError) -> Problem:
    """Return the problem, with its place, of a field that the API server would refuse."""
    return document.problem(_steps(error.path), error.message, path=error.path)


def _steps(path: str) -> tuple[str | int, ...]:
    return tuple(int(i) if i else quoted or name for i, quoted, name in _PATH_STEP.findall(path))
