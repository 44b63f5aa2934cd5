"""Opaque parameters: what is accepted, what is refused, and that every mistake is told at once with its path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.config import (
    API_VERSION,
    MAX_DEPTH,
    MAX_PARAMETERS_BYTES,
    FpgaConfig,
    GpuConfig,
    RdmaConfig,
    UnsupportedFieldError,
    parse_config,
)

WHERE = "spec.devices.config[0].opaque.parameters"


def parameters(kind: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


def errors(value: object) -> dict[str, str]:
    """The errors, by path below WHERE."""
    parsed = parse_config(value, WHERE)
    assert isinstance(parsed, tuple)
    assert parsed
    assert all(error.path.startswith(WHERE) for error in parsed)
    return {error.path.removeprefix(WHERE): error.message for error in parsed}


def nested(depth: int) -> object:
    value: object = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "config"),
    [
        (parameters("GpuConfig"), GpuConfig()),
        (parameters("GpuConfig", sharing={}), GpuConfig()),
        (parameters("GpuConfig", sharing={"strategy": "exclusive"}), GpuConfig()),
        (parameters("GpuConfig", sharing=None), GpuConfig()),
        (parameters("RdmaConfig"), RdmaConfig(rdmaCM=True)),
        (parameters("RdmaConfig", rdmaCM=False), RdmaConfig(rdmaCM=False)),
        (parameters("FpgaConfig"), FpgaConfig()),
    ],
    ids=["gpu", "gpu-empty-sharing", "gpu-exclusive", "null-is-absent", "rdma", "rdma-without-cm", "fpga"],
)
def test_valid_parameters_become_a_config_with_defaults(value: object, config: object) -> None:
    assert parse_config(value, WHERE) == config


def test_a_whole_gpu_is_exclusive_by_default() -> None:
    assert GpuConfig().sharing.strategy == "exclusive"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (parameters("GpuConfig", sharring={}), {".sharring": "unknown field; known are apiVersion, kind, sharing"}),
        (
            parameters("GpuConfig", sharing={"strategie": "exclusive"}),
            {".sharing.strategie": "unknown field; known are strategy"},
        ),
        (parameters("GpuConfig", sharing="exclusive"), {".sharing": "expected an object"}),
        (
            parameters("GpuConfig", sharing={"strategy": "greedy"}),
            {".sharing.strategy": "'greedy' is not known: expected 'exclusive'"},
        ),
        (parameters("RdmaConfig", rdmaCM="yes"), {".rdmaCM": "input should be a valid boolean, not 'yes'"}),
        (parameters("RdmaConfig", rdmaCM=1), {".rdmaCM": "input should be a valid boolean, not 1"}),
        (parameters("RdmaConfig", rdma_cm=True), {".rdma_cm": "unknown field; known are apiVersion, kind, rdmaCM"}),
        (
            {"apiVersion": "rootport.dev/v1", "kind": "GpuConfig"},
            {".apiVersion": "'rootport.dev/v1' is not known: expected rootport.dev/v1alpha1"},
        ),
        (
            parameters("GPUConfig"),
            {".kind": "'GPUConfig' is not known: expected one of FpgaConfig, GpuConfig, RdmaConfig"},
        ),
        (
            {},
            {
                ".apiVersion": "is required: expected rootport.dev/v1alpha1",
                ".kind": "is required: expected one of FpgaConfig, GpuConfig, RdmaConfig",
            },
        ),
        (
            {"apiVersion": {}, "kind": ["GpuConfig"]},
            {
                ".apiVersion": "{} is not known: expected rootport.dev/v1alpha1",
                ".kind": '["GpuConfig"] is not known: expected one of FpgaConfig, GpuConfig, RdmaConfig',
            },
        ),
        ("GpuConfig", {"": "expected an object with apiVersion rootport.dev/v1alpha1 and a kind"}),
        (None, {"": "expected an object with apiVersion rootport.dev/v1alpha1 and a kind"}),
    ],
    ids=[
        "unknown-field",
        "unknown-nested-field",
        "no-object",
        "unknown-strategy",
        "string-for-boolean",
        "number-for-boolean",
        "python-name",
        "wrong-version",
        "wrong-kind",
        "empty",
        "header-of-other-types",
        "string",
        "null",
    ],
)
def test_a_mistake_is_told_with_its_path(value: object, expected: dict[str, str]) -> None:
    assert errors(value) == expected


def test_all_mistakes_are_told_at_once() -> None:
    value = {"kind": "GpuConfig", "sharing": {"strategy": 7, "interval": 1}, "mig": True}
    assert list(errors(value)) == [".apiVersion", ".sharing.strategy", ".sharing.interval", ".mig"]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (parameters("MigConfig"), [".kind"]),
        (parameters("GpuConfig", sharing={"strategy": "timeSlicing"}), [".sharing.strategy"]),
        (parameters("GpuConfig", sharing={"strategy": "hamiCore"}), [".sharing.strategy"]),
        (parameters("GpuConfig", sharing={"strategy": "mps", "mps": {}}), [".sharing.strategy", ".sharing.mps"]),
    ],
    ids=["mig", "time-slicing", "hami-core", "mps-with-settings"],
)
def test_what_a_later_version_allows_is_unsupported_not_wrong(value: object, paths: list[str]) -> None:
    parsed = parse_config(value, WHERE)
    assert isinstance(parsed, tuple)
    assert [type(error) for error in parsed] == [UnsupportedFieldError] * len(paths)
    assert [error.path.removeprefix(WHERE) for error in parsed] == paths
    assert all("not in this version" in error.message for error in parsed)


def test_an_unknown_field_with_a_hostile_name_is_quoted_and_cut() -> None:
    (path,) = errors(parameters("FpgaConfig", **{"evil\n" + "x" * 5000: 1}))
    assert "\n" not in path
    assert len(path) < 100


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (parameters("FpgaConfig", pad="x" * MAX_PARAMETERS_BYTES), "more than 10240 bytes"),
        (parameters("FpgaConfig", pad="é" * (MAX_PARAMETERS_BYTES // 2)), "more than 10240 bytes"),
        ([0] * 10**6, "more than 10240 bytes"),
        (nested(MAX_DEPTH), "nested more than 16 levels deep"),
        (nested(100_000), "nested more than 16 levels deep"),
        ({"a": 10**10_000}, "more than 64 bits"),
        ({1: "a"}, "a key that is not a string"),
        ({"a": {"b"}}, "a value of type set"),
    ],
    ids=["long-string", "long-in-utf-8", "long-list", "deep", "very-deep", "huge-number", "number-as-key", "set"],
)
def test_what_no_api_server_stores_is_refused_before_it_is_walked(value: object, part: str) -> None:
    assert part in errors(value)[""]


def test_shared_structure_that_expands_without_end_is_refused() -> None:
    bomb: list[object] = ["x"]
    for _ in range(14):
        bomb = [bomb] * 10
    assert "more than 10240 bytes" in errors(bomb)[""]
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    assert "nested" in errors(cycle)[""]


def test_parameters_of_exactly_the_limit_are_read() -> None:
    value = parameters("FpgaConfig", pad="")
    value["pad"] = "x" * (MAX_PARAMETERS_BYTES - len(json.dumps(value, separators=(",", ":"))))
    assert list(errors(value)) == [".pad"]
    value["pad"] = f"{value['pad']}x"
    assert list(errors(value)) == [""]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(
    st.sampled_from(["sharing", "strategy", "rdmaCM", "mps", "apiVersion", "x"]) | st.text(), json_values
)


@given(kind=st.sampled_from(["GpuConfig", "RdmaConfig", "FpgaConfig", "MigConfig"]), extra=fields | json_values)
def test_any_json_gives_a_config_or_errors_below_its_path(kind: str, extra: object) -> None:
    value = parameters(kind) | extra if isinstance(extra, dict) else extra
    parsed = parse_config(value, WHERE)
    if isinstance(parsed, tuple):
        assert parsed
        assert all(error.path.startswith(WHERE) and error.message for error in parsed)
    else:
        assert parsed.kind == kind
