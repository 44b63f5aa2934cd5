"""What ``rootport slices`` prints of instance types, and for autoscalers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

Run = Callable[..., Any]


def test_the_list_has_each_instance_type_and_with_json_where_its_facts_come_from(rootport: Run) -> None:
    ran = rootport("slices", "--list")
    assert ran.code == 0
    assert "p5.48xlarge                AWS    8 NVIDIA H100 80GB HBM3  32    8 PCIe roots   2" in ran.out

    listed = json.loads(rootport("slices", "--list", "-o", "json").out)
    assert {"p4d.24xlarge", "p5.48xlarge", "Standard_ND96isr_H100_v5"} <= {each["name"] for each in listed}
    assert all(each["sources"] and each["checked"] for each in listed)


def test_the_list_as_yaml_says_the_same_as_json(rootport: Run) -> None:
    listed = json.loads(rootport("slices", "--list", "-o", "json").out)
    assert yaml.safe_load(rootport("slices", "--list", "-o", "yaml").out) == listed


@pytest.mark.parametrize(
    "options",
    [["p5.48xlarge"], ["--instance-type", "p5.48xlarge"], ["--format", "karpenter"], ["--price"]],
    ids=["file", "instance-type", "format", "price"],
)
def test_the_list_takes_nothing_that_it_would_ignore(rootport: Run, options: list[str]) -> None:
    ran = rootport("slices", "--list", *options)
    assert ran.code == 2
    assert "--list shows the whole catalogue: it takes no machine, no --price and no --format" in ran.err


def test_prices_have_no_format(rootport: Run) -> None:
    ran = rootport("slices", "--instance-type", "p5.48xlarge", "--price", "--format", "karpenter")
    assert ran.code == 2
    assert "--price prints no slices: it does not go with --format" in ran.err


def test_an_instance_type_for_a_file_is_told_how_to_name_it(rootport: Run) -> None:
    ran = rootport("slices", "p5.48xlarge")
    assert ran.code == 2
    assert ran.err == "rootport: p5.48xlarge: no such file (did you mean --instance-type p5.48xlarge?)\n"


def test_a_misspelled_instance_type_is_refused_with_the_nearest(rootport: Run) -> None:
    ran = rootport("slices", "--instance-type", "p5.48xlarg")
    assert ran.code == 2
    assert ran.err == "rootport: the catalogue has no instance type 'p5.48xlarg' (did you mean p5.48xlarge?)\n"


def test_the_slices_are_those_of_a_node_of_any_name(rootport: Run) -> None:
    ran = rootport("slices", "--instance-type", "p4d.24xlarge", "--node", "gpu-7")
    slices = list(yaml.safe_load_all(ran.out))
    assert {part["spec"]["nodeName"] for part in slices} == {"gpu-7"}
    assert "note: A node also publishes what only it knows" in ran.err


def test_karpenters_template_has_the_devices_and_counters_of_the_slices(rootport: Run) -> None:
    node = rootport("slices", "--instance-type", "p4d.24xlarge", "-o", "json")
    slices = [part["spec"] for part in json.loads(node.out)["items"]]
    ran = rootport("slices", "--instance-type", "p4d.24xlarge", "--format", "karpenter", "-o", "json")
    made = json.loads(ran.out)

    assert made["instanceType"] == "p4d.24xlarge"
    templates = made["dynamicResources"]["resourceSliceTemplates"]
    assert [template.get("devices") for template in templates] == [part.get("devices") for part in slices]
    assert [template.get("sharedCounters") for template in templates] == [part.get("sharedCounters") for part in slices]
    assert {(template["driver"], template["pool"]["name"]) for template in templates} == {
        ("rootport.dev", "p4d.24xlarge")
    }
    assert all(("devices" in template) != ("sharedCounters" in template) for template in templates)
    assert "Karpenter takes such templates from its cloud provider's code alone" in ran.err
    assert "no place for" not in ran.err


def test_the_cluster_autoscalers_template_is_a_node_and_its_slices(rootport: Run) -> None:
    ran = rootport(
        "slices", "--instance-type", "Standard_ND96isr_H100_v5", "--format", "cluster-autoscaler", "--node", "t"
    )
    node, *slices = yaml.safe_load_all(ran.out)
    assert node["kind"] == "Node"
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "Standard_ND96isr_H100_v5"
    assert {part["spec"]["nodeName"] for part in slices} == {node["metadata"]["name"]} == {"t"}
    assert {part["spec"]["pool"]["resourceSliceCount"] for part in slices} == {len(slices)}
    assert "do not apply them" in ran.err


def test_a_file_of_a_machine_can_be_a_template_too(rootport: Run) -> None:
    ran = rootport(
        "slices", "examples/machines/dgx-1-v100.yaml", "--format", "karpenter", "--node", "metal", "-o", "json"
    )
    assert json.loads(ran.out)["instanceType"] == "metal"


@pytest.mark.parametrize("command", ["topo", "pairs"])
def test_other_commands_take_an_instance_type(rootport: Run, command: str) -> None:
    ran = rootport(command, "--instance-type", "p5.48xlarge")
    assert ran.code == 0, ran.err
    assert "0000-53-00-0" in ran.out + ran.err


def test_a_gpus_model_is_not_to_be_named(rootport: Run) -> None:
    ran = rootport("slices", "--instance-type", "p5.48xlarge", "--gpu-model", "T4")
    assert ran.code == 2
    assert "--gpu-model goes with --topology FILE" in ran.err
