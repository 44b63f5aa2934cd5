"""Opaque parameters: what is accepted, what is refused, and that every mistake is told at once with its path."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api import API_VERSION
from driver.api.quantity import Quantity
from driver.api.strict import write
from driver.config import (
    MAX_DEPTH,
    MAX_PARAMETERS_BYTES,
    FpgaConfig,
    GpuConfig,
    GpuSharing,
    HamiCoreSettings,
    MigConfig,
    MpsSettings,
    RdmaConfig,
    TimeSlicingSettings,
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
        (
            parameters("GpuConfig", sharing={"strategy": "exclusive"}),
            GpuConfig(sharing=GpuSharing(strategy="exclusive")),
        ),
        (
            parameters("GpuConfig", sharing={"strategy": "timeSlicing", "timeSlicing": {}}),
            GpuConfig(sharing=GpuSharing(strategy="timeSlicing", time_slicing=TimeSlicingSettings())),
        ),
        (
            parameters("GpuConfig", sharing={"strategy": "timeSlicing", "timeSlicing": {"interval": "Long"}}),
            GpuConfig(sharing=GpuSharing(strategy="timeSlicing", time_slicing=TimeSlicingSettings(interval="Long"))),
        ),
        (
            parameters(
                "GpuConfig",
                sharing={"strategy": "mps", "mps": {"activeThreadPercentage": 30, "pinnedDeviceMemoryLimit": "10Gi"}},
            ),
            GpuConfig(
                sharing=GpuSharing(
                    strategy="mps",
                    mps=MpsSettings(active_thread_percentage=30, pinned_device_memory_limit=Quantity("10Gi")),
                )
            ),
        ),
        (
            parameters("GpuConfig", sharing={"strategy": "hamiCore", "hamiCore": {"corePolicy": "force"}, "mps": None}),
            GpuConfig(sharing=GpuSharing(strategy="hamiCore", hami_core=HamiCoreSettings(core_policy="force"))),
        ),
        (parameters("MigConfig"), MigConfig()),
        (parameters("GpuConfig", sharing=None), GpuConfig()),
        (parameters("RdmaConfig"), RdmaConfig(rdma_cm=True)),
        (parameters("RdmaConfig", rdmaCM=False), RdmaConfig(rdma_cm=False)),
        (parameters("FpgaConfig"), FpgaConfig()),
    ],
    ids=[
        "gpu",
        "gpu-empty-sharing",
        "gpu-exclusive",
        "time-slicing",
        "time-slicing-long",
        "mps",
        "hami-core",
        "mig",
        "null-is-absent",
        "rdma",
        "rdma-without-cm",
        "fpga",
    ],
)
def test_valid_parameters_become_a_config_with_defaults(value: object, config: object) -> None:
    assert parse_config(value, WHERE) == config


def test_no_strategy_is_chosen_before_it_is_known_what_the_claim_was_given() -> None:
    assert GpuConfig().sharing.strategy is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            parameters("GpuConfig", sharring={}),
            {".sharring": "unknown field; did you mean sharing?"},
        ),
        (
            parameters("GpuConfig", sharing={"strategie": "exclusive"}),
            {".sharing.strategie": "unknown field; did you mean strategy?"},
        ),
        (parameters("GpuConfig", sharing="exclusive"), {".sharing": "expected an object"}),
        (
            parameters("GpuConfig", sharing={"strategy": "greedy"}),
            {".sharing.strategy": "'greedy' is not known: expected 'exclusive', 'timeSlicing', 'mps' or 'hamiCore'"},
        ),
        (parameters("RdmaConfig", rdmaCM="yes"), {".rdmaCM": "expected true or false, not 'yes'"}),
        (parameters("RdmaConfig", rdmaCM=1), {".rdmaCM": "expected true or false, not 1"}),
        (
            parameters("RdmaConfig", rdma_cm=True),
            {".rdma_cm": "unknown field; did you mean rdmaCM?"},
        ),
        (
            {"apiVersion": "rootport.dev/v1", "kind": "GpuConfig"},
            {".apiVersion": "'rootport.dev/v1' is not known: expected rootport.dev/v1alpha1"},
        ),
        (
            parameters("GPUConfig"),
            {".kind": "'GPUConfig' is not known: did you mean GpuConfig?"},
        ),
        (
            {},
            {
                ".apiVersion": "is required: expected rootport.dev/v1alpha1",
                ".kind": "is required: expected one of FpgaConfig, GpuConfig, MigConfig, RdmaConfig",
            },
        ),
        (
            {"apiVersion": {}, "kind": ["GpuConfig"]},
            {
                ".apiVersion": "{} is not known: expected rootport.dev/v1alpha1",
                ".kind": '["GpuConfig"] is not known: expected one of FpgaConfig, GpuConfig, MigConfig, RdmaConfig',
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
    ("sharing", "expected"),
    [
        (
            {"strategy": "exclusive", "mps": {"nonsense": 1}, "timeSlicing": {}},
            {
                f".{name}": f"is only for strategy {name}, but the strategy is exclusive: set strategy: {name}, or "
                f"leave out {name}"
                for name in ("timeSlicing", "mps")
            },
        ),
        # As NVIDIA's own driver writes them.
        ({"strategy": "TimeSlicing"}, {".strategy": "'TimeSlicing' is not known: did you mean timeSlicing?"}),
        ({"strategy": "mps", "mpsConfig": {}}, {".mpsConfig": "unknown field; did you mean mps?"}),
        (
            {"strategy": "mps", "mps": {"defaultActiveThreadPercentage": 50}},
            {".mps.defaultActiveThreadPercentage": "unknown field; did you mean activeThreadPercentage?"},
        ),
        (
            {"mps": {}, "hamiCore": {}},
            {
                ".hamiCore": "is only for strategy hamiCore, but the strategy is mps: set strategy: hamiCore, or "
                "leave out hamiCore"
            },
        ),
        (
            {"strategy": "MPS", "mps": {}},
            {".strategy": "'MPS' is not known: did you mean mps?"},
        ),
        (
            {"strategy": "timeSlicing", "timeSlicing": {"interval": "rm -rf /"}},
            {".timeSlicing.interval": "'rm -rf /' is not known: expected 'Default', 'Short', 'Medium' or 'Long'"},
        ),
        (
            {"strategy": "mps", "mps": {"activeThreadPercentage": 0, "pinnedDeviceMemoryLimit": "0", "limit": 1}},
            {
                ".mps.activeThreadPercentage": "must be at least 1, not 0",
                ".mps.pinnedDeviceMemoryLimit": "0 is not an amount of memory: expected whole bytes, such as 10Gi",
                ".mps.limit": "unknown field; known are activeThreadPercentage, pinnedDeviceMemoryLimit",
            },
        ),
        (
            {"strategy": "mps", "mps": {"activeThreadPercentage": 33.3, "pinnedDeviceMemoryLimit": "all"}},
            {
                ".mps.activeThreadPercentage": "expected a whole number, not 33.3",
                ".mps.pinnedDeviceMemoryLimit": "'all' is not a quantity: expected a number with an optional suffix "
                "such as 500m, 80Gi or 1e3",
            },
        ),
        (
            {"strategy": "mps", "mps": {"activeThreadPercentage": 101, "pinnedDeviceMemoryLimit": "-1Gi"}},
            {
                ".mps.activeThreadPercentage": "must be at most 100, not 101",
                ".mps.pinnedDeviceMemoryLimit": "-1Gi is not an amount of memory: expected whole bytes, such as 10Gi",
            },
        ),
        (
            {"strategy": "mps", "mps": {"pinnedDeviceMemoryLimit": "500m"}},
            {".mps.pinnedDeviceMemoryLimit": "500m is not an amount of memory: expected whole bytes, such as 10Gi"},
        ),
        (
            {"strategy": "mps", "mps": {"pinnedDeviceMemoryLimit": "8"}},
            {
                ".mps.pinnedDeviceMemoryLimit": "MPS limits memory in units of 1Mi, and this is 8 bytes; "
                "did you mean 8Gi?"
            },
        ),
        (
            {"strategy": "hamiCore", "hamiCore": {"corePolicy": "off"}},
            {".hamiCore.corePolicy": "'off' is not known: expected 'default', 'force' or 'disable'"},
        ),
        ({"strategy": "hamiCore", "hamiCore": "force"}, {".hamiCore": "expected an object"}),
    ],
    ids=[
        "settings-of-others",
        "strategy-of-nvidias-driver",
        "settings-of-nvidias-driver",
        "field-of-nvidias-driver",
        "settings-of-two-strategies",
        "strategy-in-capitals",
        "interval",
        "mps-zero-and-unknown",
        "mps-fractions",
        "mps-too-much",
        "mps-half-a-byte",
        "mps-without-unit",
        "core-policy",
        "no-object",
    ],
)
def test_a_mistake_in_sharing_is_told_with_its_path(sharing: object, expected: dict[str, str]) -> None:
    found = errors(parameters("GpuConfig", sharing=sharing))
    assert found == {f".sharing{path}": message for path, message in expected.items()}


def test_a_mig_config_has_no_fields_yet() -> None:
    assert errors(parameters("MigConfig", sharing={})) == {".sharing": "unknown field; known are apiVersion, kind"}


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
    st.sampled_from(["sharing", "strategy", "rdmaCM", "mps", "timeSlicing", "hamiCore", "apiVersion", "x"])
    | st.sampled_from(["environment", "interface", "vf"])
    | st.text(),
    json_values
    | st.dictionaries(
        st.sampled_from(["name", "mtu", "vlan", "vlanQoS", "minTxRate", "maxTxRate", "guid"]), json_values
    ),
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


settings = st.dictionaries(
    st.sampled_from(["interval", "activeThreadPercentage", "pinnedDeviceMemoryLimit", "corePolicy"]),
    json_values | st.sampled_from(["Default", "10Gi", "force"]) | st.integers(-1, 101),
)


@given(
    strategy=st.none() | st.sampled_from(["exclusive", "timeSlicing", "mps", "hamiCore", "none"]),
    objects=st.dictionaries(st.sampled_from(["timeSlicing", "mps", "hamiCore"]), settings),
)
def test_what_is_accepted_has_settings_of_its_own_strategy_alone(
    strategy: str | None, objects: dict[str, object]
) -> None:
    parsed = parse_config(parameters("GpuConfig", sharing={"strategy": strategy, **objects}), WHERE)
    if isinstance(parsed, GpuConfig):
        assert {name for name, value in write(parsed.sharing).items() if value is not None} <= {
            "strategy",
            parsed.sharing.meant,
        }
        assert strategy is None or parsed.sharing.meant == strategy
    else:
        assert isinstance(parsed, tuple)
        assert all(error.path.startswith(WHERE) for error in parsed)


@pytest.mark.parametrize("many", [[{}] * 1_000_000, dict.fromkeys(map(str, range(300_000)))], ids=["list", "object"])
def test_what_is_far_too_large_is_not_walked(many: object) -> None:
    tracemalloc.start()
    try:
        _, peak = tracemalloc.get_traced_memory()
        errors = parse_config(parameters("GpuConfig", many=many), "here")
        _, peak_after = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than 10240 bytes" in str(errors)
    assert peak_after - peak < 1_000_000
