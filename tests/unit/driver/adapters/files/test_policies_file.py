"""A file of policies: every mistake at once, with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from driver.adapters.files.policies_file import parse_policies, read_policies
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.errors import InputError
from tests.support.paths import REPO

HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(HEADER + "policies:\n- models: ['*H100*']\n  core: {minimum: 10, step: 10}\n")
    policy = read_policies(path, GpuPolicies).of(model="NVIDIA H100 NVL", node="n", address="0000:1b:00.0")
    assert (policy.core.minimum, policy.core.step) == (10, 10)


def test_every_mistake_is_told_at_once_with_its_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(
        HEADER + "policies:\n"
        "- models: x\n"
        "  core: {minimum: 10, step: 7}\n"
        "  maxShares: 0\n"
        "- modes: [mps]\n"
        "- memory:\n"
        "    step: 1.5\n"
        "- model: red\n"
        "- 7\n"
    )
    with pytest.raises(InputError) as caught:
        read_policies(path, GpuPolicies)
    assert str(caught.value).splitlines() == [
        f"{path}:{line}: GpuPolicies: policies{told}"
        for line, told in (
            (4, "[0].models: expected a list"),
            (5, "[0].core: 100 - minimum, 90, must be a multiple of step, 7: the whole GPU is one of the values"),
            (6, "[0].maxShares: must be at least 1, not 0"),
            (7, "[1].modes[0]: 'mps' is not known: expected 'gpu', 'gpu-ratio' or 'mig'"),
            (9, "[2].memory.step: expected whole bytes, at least 1, such as 1Gi, not 1500m"),
            (10, "[3].model: unknown field; did you mean models?"),
            (11, "[4]: expected an object"),
        )
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "expected one GpuPolicies object", id="empty"),
        pytest.param("# nothing\n", "expected one GpuPolicies object", id="comments"),
        pytest.param(HEADER + "---\n" + HEADER, "not 2", id="two"),
        pytest.param("- 1\n", "expected a Kubernetes object", id="a list"),
        pytest.param("kind: [", "not valid YAML", id="no YAML"),
        pytest.param("kind: GpuPolicies\n", "apiVersion: is required", id="no version"),
        pytest.param(
            HEADER.replace("Gpu", "Nic"), "'NicPolicies' is not known: expected 'GpuPolicies'", id="another kind"
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gpu-policies}\ndata: {gpu-policies.yaml: ''}\n",
            "policies.yaml:2: ConfigMap gpu-policies: kind: a ConfigMap, not the GpuPolicies in it (write the text",
            id="the ConfigMap around it",
        ),
        pytest.param(HEADER + "kind: GpuPolicies\n", "is there twice", id="a field twice"),
    ],
)
def test_a_file_that_is_something_else_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policies(text, "policies.yaml", GpuPolicies)
    assert told in str(caught.value)
    assert str(caught.value).startswith("policies.yaml")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (1024**2 + 1)], ids=["not UTF-8", "too large"])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "policies.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"policies\.yaml"):
        read_policies(path, GpuPolicies)


@pytest.mark.parametrize("default", [DEFAULT_POLICIES, DEFAULT_NIC_POLICIES], ids=["GPUs", "NICs"])
def test_the_config_map_that_is_installed_says_the_defaults_and_its_comment_is_right(
    default: GpuPolicies | NicPolicies,
) -> None:
    documents = yaml.safe_load_all((REPO / "resourceclasses/workloads/controller.yaml").read_text())
    name = f"{default.KIND.removesuffix('Policies').lower()}-policies"
    (config_map,) = (item for item in documents if item["metadata"]["name"] == f"rootport-{name}")
    text = config_map["data"][f"{name}.yaml"]
    assert parse_policies(text, "it", type(default)) == default
    lines = text.splitlines()
    first = lines.index("# policies:")
    example = "\n".join(line.removeprefix("# ") for line in lines[first:] if line.startswith("#"))
    header = HEADER.replace("GpuPolicies", default.KIND)
    written = parse_policies(header + example, "its comment", type(default))
    assert written.policies == (type(default).model_fields["policies"].annotation.__args__[0](),)
