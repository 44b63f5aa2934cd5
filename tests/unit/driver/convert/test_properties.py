"""What holds of every object that is converted, whatever it asks for."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.convert import Outcome
from driver.convert.dialects import DIALECTS
from tests.unit.driver.convert.conversions import claims, converted

NAMES = sorted(
    {
        resource.name.replace("mig-*", "mig-1g.10gb").replace("*", "x")
        for dialect in DIALECTS
        for resource in dialect.resources
    }
)
ANNOTATIONS = sorted({note.name.replace("*", "x") for dialect in DIALECTS for note in dialect.notes})
SCHEDULERS = [*sorted({name for dialect in DIALECTS for name in dialect.schedulers}), "default-scheduler"]

amounts = st.sampled_from([0, 1, 2, "50", "100", "200", "16Gi", "4096", "150", "half", None])
annotation_values = st.sampled_from(
    ["", "x", "{}", '{"deviceTypes": ["gpu", "rdma"]}', '{"rdma": {"vfSelector": {}}}', "A100", "true", "null", "[1]"]
)
resources = st.dictionaries(st.sampled_from([*NAMES, "cpu", "example.com/x"]), amounts, max_size=4)


@st.composite
def containers(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        container: dict[str, Any] = {"name": f"c{number}", "resources": {"limits": draw(resources)}}
        if draw(st.booleans()):
            container["resources"]["requests"] = dict(container["resources"]["limits"])
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
        made.append(container)
    return made


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    notes = st.dictionaries(st.sampled_from(ANNOTATIONS), annotation_values, max_size=2)
    return {
        "kind": "Pod",
        "metadata": {"name": "x", "annotations": draw(notes), "labels": draw(notes)},
        "spec": {
            "schedulerName": draw(st.sampled_from(SCHEDULERS)),
            "containers": draw(containers()),
            "initContainers": draw(st.one_of(st.just([]), containers())),
        },
    }


@settings(max_examples=150, deadline=None)
@given(pods())
def test_a_conversion_is_pure_the_same_every_time_valid_and_done_once(data: dict[str, Any]) -> None:
    conversion = converted(data)
    assert (conversion.outcome is Outcome.UNCHANGED) == (not conversion.findings)
    if conversion.outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
        return
    spec = conversion.object["spec"]
    named = {entry["name"] for entry in spec["resourceClaims"]}
    every = [*spec["containers"], *spec["initContainers"]]
    used = {entry["name"] for item in every for entry in item["resources"].get("claims", ())}
    assert used == named
    assert len(named) == len(spec["resourceClaims"])
    assert {entry["resourceClaimTemplateName"] for entry in spec["resourceClaims"]} == set(claims(conversion))
    for before, after in zip(data["spec"]["containers"], spec["containers"], strict=True):
        for kind in ("limits", "requests"):
            left = after["resources"].get(kind, {})
            assert left.items() <= before["resources"].get(kind, {}).items()
            assert {"cpu", "example.com/x"} & set(before["resources"].get(kind, {})) <= set(left)


_PROGRAM = """
import json, sys
from driver.convert import convert
for data in json.load(sys.stdin):
    found = convert(data)
    print(json.dumps([found.object, found.templates, [str(finding) for finding in found.findings]]))
"""


def test_other_processes_convert_alike() -> None:
    """Python orders sets of texts anew in every process."""
    limits = [{name: "100" if "koordinator" in name else "1"} for name in NAMES]
    annotations = dict.fromkeys(ANNOTATIONS, "{}")
    objects = [
        {
            "kind": "Pod",
            "metadata": {"annotations": annotations, "labels": annotations},
            "spec": {"containers": [{"name": "a", "resources": {"limits": each}}, {"name": "b"}]},
        }
        for each in [*limits, *({**one, **two} for one, two in itertools.pairwise(limits))]
    ]
    texts = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(objects),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert texts[0].count("resourceClaimTemplateName") >= 10
