"""What is in the image is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.images import build_rootport
from tests.support.cluster.machine import missing_for_machines
from tests.support.needed_tools import unavailable
from tests.support.paths import REPO
from tools.release.image import image_facts
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
