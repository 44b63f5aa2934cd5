"""What the chart makes is what the kustomization makes, with each component and with all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.cluster.control_plane import ControlPlane
from tests.support.helm import CHART, COMPONENTS, HELM_LABELS, Helm, keyed, switch, without_helm

NEEDS = {"webhook-fail-closed": ("webhook",), "convert-webhook": ("webhook",)}
CASES = {"none": (), **{name: (*NEEDS.get(name, ()), name) for name in COMPONENTS}, "all": COMPONENTS}


def values(components: tuple[str, ...]) -> dict[str, Any]:
    return {"components": {switch(name): True for name in components}}


@pytest.mark.needs_go
@pytest.mark.parametrize("components", CASES.values(), ids=CASES.keys())
def test_it_renders_the_objects_of_the_kustomization(
    helm: Helm, control_plane: ControlPlane, kustomized: Callable[..., str], components: tuple[str, ...]
) -> None:
    expected = keyed(item for item in yaml.safe_load_all(kustomized(control_plane, *components)) if item)
    # Helm keeps a release in its namespace, so that the namespace is there before.
    del expected["Namespace", "", "rootport-system"]
    rendered = helm.render(values(components))
    assert all(item["metadata"]["labels"].keys() > HELM_LABELS for item in rendered)
    made = keyed(map(without_helm, rendered))
    assert made.keys() == expected.keys()
    for key, item in expected.items():
        # kustomize labels what its own folder has, not what components add; the chart labels all.
        item["metadata"].setdefault("labels", {}).update({"app.kubernetes.io/part-of": "rootport"})
        assert made[key] == item, key


@pytest.mark.needs_go
@pytest.mark.parametrize("components", [(), COMPONENTS], ids=["none", "all"])
def test_helm_lint_is_content(helm: Helm, components: tuple[str, ...]) -> None:
    options = [f"--set=components.{switch(name)}=true" for name in components]
    said = helm("lint", "--strict", CHART, "--namespace=rootport-system", *options)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "WARNING" not in said


@pytest.mark.needs_go
def test_a_server_takes_everything_as_it_is(helm: Helm, control_plane: ControlPlane) -> None:
    without_operator = tuple(name for name in COMPONENTS if name != "monitoring")
    made = [item for item in helm.render(values(without_operator)) if item["kind"] != "CustomResourceDefinition"]
    control_plane.kubectl("create", "namespace", "rootport-system", check=False)
    said = control_plane.kubectl(
        "apply", "--filename=-", "--dry-run=server", "--validate=strict", input=yaml.safe_dump_all(made)
    )
    assert len(said.splitlines()) == len(made)
