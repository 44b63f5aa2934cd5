"""What an image's archive tells, and which builder makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster.oci_archive import file, layer_of, write_image
from tools.release.image import find_builder, image_facts
from tools.release.sbom import debian_packages

BASE = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9\n"
MORE = f"{BASE}\nPackage: iproute2\nStatus: install ok installed\nArchitecture: amd64\nVersion: 6.1.0-3\n"


def archive(folder: Path, *statuses: str) -> Path:
    """An image with a layer for each text of dpkg's status."""
    release = file("usr/lib/os-release", b"ID=debian\nVERSION_ID=12\n")
    layers = [layer_of([file("var/lib/dpkg/status", status.encode()), release]) for status in statuses]
    return write_image(folder / "image.tar", name="example:1", layers=layers or [layer_of([release])], config={})


def test_the_last_layer_says_what_is_installed(tmp_path: Path) -> None:
    facts = image_facts(archive(tmp_path, BASE, MORE))
    assert len(facts.layers) == 2
    assert facts.digest.startswith("sha256:")
    names = [package.purl.to_string() for package in debian_packages(facts.dpkg_status, facts.os_release)]
    assert names == [
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
        "pkg:deb/debian/iproute2@6.1.0-3?arch=amd64&distro=debian-12",
    ]


def test_an_image_of_no_debian_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no image of a Debian"):
        image_facts(archive(tmp_path))


@pytest.mark.parametrize(
    ("there", "working", "found"),
    [
        ({"docker", "buildah", "podman"}, {"docker", "buildah", "podman"}, "docker buildx"),
        ({"docker", "buildah"}, {"buildah"}, "buildah"),  # docker without its daemon
        ({"podman"}, {"podman"}, "podman"),
        ({"docker"}, set(), None),
        (set(), set(), None),
    ],
)
def test_the_first_builder_that_works_is_taken(there: set[str], working: set[str], found: str | None) -> None:
    builder = find_builder(lambda name: name if name in there else None, lambda command: command[0] in working)
    assert (builder.name if builder else None) == found
