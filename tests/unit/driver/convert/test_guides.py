"""The tables of docs/user/migrate agree with the converter: each row is converted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from driver.convert import Outcome, convert
from driver.convert.dialects import dialects_for
from driver.convert.other_drivers.names import NAMES
from driver.convert.settings import DEFAULT
from tests.support.paths import REPO

FOLDER: Final = REPO / "docs" / "user" / "migrate"
GUIDES: Final = tuple(sorted(path for path in FOLDER.glob("*.md") if path.name != "fields.md"))
POD_TABLE: Final = "| before | after |"
CLAIM_TABLE: Final = "| in the claim | becomes |"


def rows(head: str, *pages: Path) -> Iterator[tuple[str, str, str]]:
    """The rows of all tables with this head: page, left cell, right cell."""
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            if line == head:
                for row in itertools.takewhile(bool, lines[at + 2 :]):
                    left, right = row.removeprefix("| ").removesuffix(" |").split(" | ")
                    yield page.stem, left, right


POD_ROWS: Final = list(rows(POD_TABLE, *GUIDES))
CLAIM_ROWS: Final = list(rows(CLAIM_TABLE, *GUIDES))


def sample(cell: str) -> dict[str, Any]:
    """The pod that a left cell speaks of: ``name: value``, and so on, where no other word stands before it."""
    limits, metadata = {}, {"annotations": {}, "labels": {}}
    for kind, name, value in re.findall(r"(annotation |label |)`([^:`]+): ([^`]+)`", cell):
        target = metadata[f"{kind.strip()}s"] if kind else limits
        target[name] = value
    assert limits
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sample", **metadata},
        "spec": {"containers": containers},
    }


def test_every_origin_has_a_guide_and_every_guide_a_table() -> None:
    assert {page for page, _, _ in (*POD_ROWS, *CLAIM_ROWS)} == {path.stem for path in GUIDES}
    assert len(POD_ROWS) > 40


@pytest.mark.parametrize(("page", "before", "after"), POD_ROWS, ids=lambda text: text[:60])
def test_a_row_is_what_the_converter_says(page: str, before: str, after: str) -> None:
    converted = convert(sample(before))
    said = "\n".join(finding.text for finding in converted.findings)
    assert after.startswith("refused") == (converted.outcome is Outcome.REFUSED), said
    assert converted.outcome is not Outcome.UNCHANGED
    quoted = re.findall(r"`([^`]+)`", after)
    assert quoted or after.startswith("refused")
    assert [text for text in quoted if text not in said] == [], said


def test_the_guides_know_every_resource_that_a_dialect_knows_by_a_whole_name() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md"))
    known = {
        line.name for dialect in dialects_for(DEFAULT) for line in dialect.resources if not line.name.endswith("*")
    }
    assert sorted(name for name in known if name not in text) == []


def attributes() -> Mapping[str, set[str]]:
    """What becomes of each attribute of another driver; empty for what is refused."""
    found: dict[str, set[str]] = {}
    for (domain, _), parts in NAMES.items():
        for name, equal in parts["attributes"].items():
            found.setdefault(f"{domain}/{name}", set()).add(equal.name)
    return found


@pytest.mark.parametrize(("page", "before", "after"), CLAIM_ROWS, ids=lambda text: text[:60])
def test_a_row_of_claims_is_what_the_converter_says(page: str, before: str, after: str) -> None:
    kind, names = before.split(" ", 1)
    becomes = re.findall(r"`([^`]+)`", after)
    for name in re.findall(r"`([^`]+)`", names):
        if kind == "attribute":
            assert attributes()[name] - {""} == set(becomes)
            continue
        devices: dict[str, Any] = {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}
        if kind == "parameters":
            driver = devices["requests"][0]["exactly"]["deviceClassName"] = "gpu.nvidia.com"
            sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
            header = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": name, "sharing": sharing}
            devices["config"] = [{"opaque": {"driver": driver, "parameters": header}}]
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
        converted = convert({**claim, "spec": {"devices": devices}})
        assert after.startswith("refused") == (converted.outcome is Outcome.REFUSED)
        assert all(text in str(converted.object["spec"]) for text in becomes)
