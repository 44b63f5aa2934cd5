"""What is in the image is known, and is the same in every build."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from itertools import zip_longest
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.images import build_rootport, build_rootport_from_nothing
from tests.support.cluster.machine import missing_for_machines
from tests.support.needed_tools import unavailable
from tests.support.paths import REPO
from tools.release.image import find_builder, image_facts
from tools.release.parts import Release, make_image_sbom, take_image

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def image() -> Path:
    """The image that the tests' node runs, as an OCI archive; parts of it may come from earlier builds."""
    if reason := missing_for_machines():
        unavailable(reason)
    return build_rootport(REPO, cache_folder())


def test_its_bill_of_materials_names_the_packages_of_debian_in_it(image: Path, tmp_path: Path) -> None:
    release = Release("9.0.0", REPO, tmp_path, 1_800_000_000)
    text = make_image_sbom(release, take_image(release, image)).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    told = json.loads(text)
    names = {part["purl"].partition("@")[0] for part in told["components"]}
    assert {"pkg:deb/debian/iproute2", "pkg:deb/debian/libc6", "pkg:pypi/grpcio"} <= names
    (digest,) = (item["value"] for item in told["metadata"]["component"]["properties"])
    assert digest == image_facts(image).digest


def test_two_builds_from_nothing_in_other_folders_and_with_other_umasks_give_the_same_layers(
    tagged: Path, tmp_path: Path
) -> None:
    if reason := missing_for_machines():
        unavailable(reason)
    archives = []
    # The usual umask comes first: with it the builder makes what it keeps, such as the base.
    for folder, mask in ((tmp_path / "here", 0o022), (tmp_path / "elsewhere" / "with a longer path", 0o077)):
        former = os.umask(mask)
        try:
            subprocess.run(["git", "clone", "--quiet", tagged, folder / "clone"], check=True)
            archive = folder / "image.tar"
            build_rootport_from_nothing(folder / "clone", cache_folder(), archive, *options_of_a_release(1_800_000_000))
        finally:
            os.umask(former)
        archives.append(archive)
    one, other = archives
    assert image_facts(one).layers == image_facts(other).layers, differences(one, other)


def options_of_a_release(seconds: int) -> list[str]:
    """What the release tool asks of buildah, but for the image's name and the folder."""
    builder = find_builder(lambda program: program if program == "buildah" else None, lambda _: True)
    assert builder is not None
    command = builder.commands[0]
    return [part.format(seconds=seconds) for part in command[command.index("build") + 1 : command.index("--tag")]]


def differences(one: Path, other: Path) -> str:
    """A line for each entry that differs; a new version of a Debian package between both builds is seen here too."""
    lines = []
    for number, layers in enumerate(zip_longest(image_facts(one).layers, image_facts(other).layers), start=1):
        if layers[0] == layers[1]:
            continue
        before, after = (entries(image, layer) for image, layer in zip((one, other), layers, strict=True))
        found = []
        for name in sorted(before.keys() | after.keys()):
            a, b = before.get(name, {}), after.get(name, {})
            differing = {
                key: (a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)
            }
            if differing:
                found.append(f"layer {number}, {name}: {differing}")
        lines += found or [f"layer {number}: its entries are equal, so their order or the compression differs"]
    return "\n".join(lines)


def entries(archive: Path, layer: str | None) -> dict[str, dict[str, object]]:
    """What a layer of an image says of each file, by its name."""
    if layer is None:
        return {}
    found = {}
    with (
        tarfile.open(archive) as image,
        tarfile.open(fileobj=image.extractfile(f"blobs/{layer.replace(':', '/')}")) as tar,
    ):
        for entry in tar:
            file = tar.extractfile(entry) if entry.isfile() else None
            content = hashlib.sha256(file.read()).hexdigest() if file else ""
            said = {key: value for key, value in entry.get_info().items() if key != "chksum"}
            found[entry.name] = {**said, "pax": entry.pax_headers, "content": content}
    return found
