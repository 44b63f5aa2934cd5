"""The software bill of materials, as CycloneDX 1.6: of the lock file, and of an image with its Debian packages.

The same input gives the same bytes: the serial number is made of the content, and the time is the caller's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

__all__ = ["DebianPackage", "Locked", "bill_of_materials", "debian_packages", "licence_of", "locked_packages"]

OURSELVES: Final = "rootport"
_PACKAGE: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA: Final = re.compile(r"^ +#(?: via)? +(\S.*)$")


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of a lock file: the SHA-256 of each file that may be installed for it, and what needs it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> PackageURL:
        """The package's address (https://github.com/package-url/purl-spec)."""
        return PackageURL("pypi", None, self.name, self.version)


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """An installed package of an image, as dpkg knows it."""

    name: str
    version: str
    architecture: str
    distribution: str = field(default="")

    @property
    def purl(self) -> PackageURL:
        """The package's address; ``distribution`` is such as debian-12."""
        qualifiers = {"arch": self.architecture, **({"distro": self.distribution} if self.distribution else {})}
        return PackageURL("deb", "debian", self.name, self.version, qualifiers)


def locked_packages(lock: str) -> list[Locked]:
    """Return the packages of a lock file that pip-compile wrote (``--generate-hashes``).

    Raises:
        ValueError: A package has no hash, or there is none.
    """
    found: list[Locked] = []
    for line in lock.splitlines():
        if started := _PACKAGE.match(line):
            found.append(Locked(started[1], started[2], (), ()))
        elif found and (hashed := _HASH.search(line)):
            found[-1] = _with(found[-1], digest=hashed[1])
        elif found and (via := _VIA.match(line)):
            found[-1] = _with(found[-1], user=via[1].split(" ")[0])
    without = [package.name for package in found if not package.hashes]
    if without or not found:
        raise ValueError(f"no hash is locked for {', '.join(without)}" if without else "the lock file has no package")
    return found


def debian_packages(status: str, release: str = "") -> Iterator[DebianPackage]:
    """Yield what is installed, of the text of /var/lib/dpkg/status; ``release`` is the text of /etc/os-release."""
    identity = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', release, re.MULTILINE))
    distro = "-".join(identity[key] for key in ("ID", "VERSION_ID") if key in identity)
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            yield DebianPackage(fields["Package"], fields["Version"], fields["Architecture"], distro)


def licence_of(package: Locked) -> str | None:
    """Return the licence that the installed package states of itself, an SPDX expression where it has one.

    None where it states none, or where another version is installed, of which nothing follows.
    """
    try:
        found = distribution(package.name)
    except PackageNotFoundError:
        return None
    if found.version != package.version:
        return None
    stated: str | None = found.metadata.get("License-Expression") or found.metadata.get("License")
    if stated and "\n" not in stated.strip():
        return stated.strip()
    named = [text.rpartition(" :: ")[2] for text in found.metadata.get_all("Classifier", []) if "License ::" in text]
    return named[0] if len(named) == 1 else None


def bill_of_materials(
    *,
    version: str,
    lock: str,
    seconds: int,
    licences: Mapping[str, str | None],
    debian: Iterable[DebianPackage] = (),
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return the bill of materials as CycloneDX JSON.

    Args:
        version: Rootport's.
        lock: The text of requirements.lock.
        seconds: The time that the document has, in seconds since 1970: SOURCE_DATE_EPOCH.
        licences: By the name of a Python package; those without one have none in the document.
        debian: The packages of the image; none for the Python distribution alone.
        facts: More about Rootport itself: properties whose names begin with ``rootport:``.

    Raises:
        ValueError: The lock file is none.
    """
    packages = locked_packages(lock)
    about = {f"rootport:{name}": text for name, text in (facts or {}).items()}
    ourselves = Component(
        type=ComponentType.APPLICATION,
        name=OURSELVES,
        version=version,
        bom_ref=OURSELVES,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", None, OURSELVES, version),
        properties=[Property(name=name, value=text) for name, text in about.items()],
    )
    parts = {package.name: _component(package, licences.get(package.name)) for package in packages}
    system = [_debian_component(package) for package in debian]
    needs: dict[str, list[Component]] = {}
    for package in packages:
        for user in package.needed_by:
            needs.setdefault(user, []).append(parts[package.name])
    users = {OURSELVES: ourselves, **parts}
    bom = Bom(
        metadata=BomMetaData(component=ourselves, timestamp=datetime.fromtimestamp(seconds, UTC)),
        components=[*parts.values(), *system],
        dependencies=[
            Dependency(user.bom_ref, dependencies=[Dependency(part.bom_ref) for part in needs.get(name, [])])
            for name, user in users.items()
        ],
        serial_number=uuid.UUID(int=0),
    )
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, _json(bom))
    return _json(bom) + "\n"


def _component(package: Locked, licence: str | None) -> Component:
    # The hashes are those of the files that may be installed, one of them: of the distribution, not of the component.
    distributed = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(package.purl.to_string()),
        comment="the files that requirements.lock allows; one of them is installed",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
    )
    return Component(
        name=package.name,
        version=package.version,
        bom_ref=package.purl.to_string(),
        purl=package.purl,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        external_references=[distributed],
    )


def _debian_component(package: DebianPackage) -> Component:
    return Component(name=package.name, version=package.version, bom_ref=package.purl.to_string(), purl=package.purl)


def _json(bom: Bom) -> str:
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _with(package: Locked, *, digest: str | None = None, user: str | None = None) -> Locked:
    return Locked(
        package.name,
        package.version,
        (*package.hashes, digest) if digest else package.hashes,
        (*package.needed_by, user) if user else package.needed_by,
    )
