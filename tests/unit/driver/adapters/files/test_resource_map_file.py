"""The resource map is read strictly: every mistake at once, each with its line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.files.resource_map_file import parse_resource_map, read_resource_map
from driver.convert.requests import NicRequest
from driver.errors import InputError

HEAD = "apiVersion: rootport.dev/v1alpha1\nkind: ResourceMap\n"


def test_a_map_says_which_nics_a_resource_is(tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    path.write_text(
        HEAD
        + """
resources:
- name: openshift.io/mlnxnics
  deviceClassName: rdma-vf.rootport.dev
  selectors: ['device.attributes["rootport.dev"].rail == 1']
  networks: [ml/roce]
- name: rdma/*
  bandwidth: 10G
- {name: nvidia.com/hostdev, deviceClassName: my-nics, count: 2}
leftAlone: [intel.com/dpdk]
"""
    )
    settings = read_resource_map(path)
    assert settings.resources == {
        "openshift.io/mlnxnics": NicRequest(is_vf=True, selectors=('device.attributes["rootport.dev"].rail == 1',)),
        "rdma/*": NicRequest(bandwidth=10**10),
        "nvidia.com/hostdev": NicRequest(device_class="my-nics", count=2),
    }
    assert settings.networks == {"ml/roce": "openshift.io/mlnxnics"}
    assert settings.left_alone == {"intel.com/dpdk"}


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        pytest.param(
            "resources: [{name: x, count: 0}, {nam: a.b/c}]",
            ["[0].name", "[0].count", "[1].name", "[1].nam"],
            id="all at once",
        ),
        pytest.param("resources: [{name: '*'}]", ["resources[0].name"], id="every resource"),
        pytest.param("resources: [{name: cpu}]", ["resources[0].name"], id="no extended resource"),
        pytest.param("resources: [{name: a.b/c, bandwidth: 0.5}]", ["bandwidth"], id="half a bit"),
        pytest.param(
            "resources: [{name: a.b/c, selectors: ['device.x', 'a b']}]",
            ["selectors[0]", "selectors[1]"],
            id="selectors",
        ),
        pytest.param("resources: [{name: a.b/c, networks: ['A']}]", ["networks[0]"], id="a network's name"),
        pytest.param("resources: [{name: a.b/c}, {name: a.b/c}]", ["a.b/c is there twice"], id="a resource twice"),
        pytest.param(
            "resources: [{name: a.b/c, networks: [n]}, {name: a.b/d, networks: [n]}]",
            ["n is there twice"],
            id="a network of two resources",
        ),
        pytest.param(
            "resources: [{name: a.b/c, deviceClassName: rdma-vf.rootport.dev, bandwidth: 1G}]",
            ["bandwidth"],
            id="a VF's bandwidth",
        ),
        pytest.param("leftAlone: [a.b/*]", ["leftAlone[0]"], id="left alone by its beginning"),
        pytest.param(
            "resources: [{name: nvidia.com/gpu}, {name: koordinator.sh/rdma}, {name: nvidia.com/mig-1g.10gb}]",
            [
                "[0].name: nvidia.com/gpu is a name of NVIDIA",
                "[1].name: koordinator.sh/rdma is",
                "[2].name: nvidia.com/mig-*",
            ],
            id="names that other systems' users write",
        ),
        pytest.param(
            "resources: [{name: nvidia.com/*}, {name: nvidia.com/mig*}, {name: nvidia.com/h*}]",
            ["resources[0].name", "resources[1].name"],
            id="beginnings of names that other systems' users write",
        ),
        pytest.param(
            "resources: [{name: a.b/c}, {name: a.b/*}]\nleftAlone: [a.b/c, a.b/d]",
            ["resources[0].name: a.b/c is under leftAlone as well"],
            id="a resource that is left alone",
        ),
        pytest.param("policies: []", ["policies"], id="another file's field"),
    ],
)
def test_every_mistake_is_named_with_its_line_and_field(text: str, mistakes: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_resource_map(HEAD + text, "map.yaml")
    shown = str(caught.value)
    assert shown.count("map.yaml:3") == len(mistakes)
    assert [mistake for mistake in mistakes if mistake not in shown] == []


@pytest.mark.parametrize("text", ["", HEAD + "---\n" + HEAD, "kind: NicPolicies\napiVersion: rootport.dev/v1alpha1"])
def test_a_file_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_resource_map(text, "map.yaml")
