"""What the API server refuses in claims, templates and classes: one case a rule."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from driver.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate
from driver.api.validation.claims import validate_claim, validate_claim_template, validate_device_class
from driver.api.validation.errors import FieldError

GPU: dict[str, Any] = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
EITHER: dict[str, Any] = {
    "name": "either",
    "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu.rootport.dev"},
        {"name": "small", "deviceClassName": "gpu.rootport.dev"},
    ],
}
DEVICES: dict[str, Any] = {
    "requests": [GPU, EITHER],
    "constraints": [{"requests": ["gpu", "either/big"], "matchAttribute": "rootport.dev/pcieSwitch"}],
    "config": [{"requests": ["gpu"], "opaque": {"driver": "rootport.dev", "parameters": {"kind": "GpuConfig"}}}],
}


def claim(devices: dict[str, Any], **metadata: Any) -> ResourceClaim:
    metadata = {"name": "a-claim", "namespace": "team-a"} | metadata
    return ResourceClaim.model_validate({"metadata": metadata, "spec": {"devices": devices}})


def exactly(**fields: Any) -> dict[str, Any]:
    return {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"} | fields}]}


def only(errors: tuple[FieldError, ...]) -> FieldError:
    assert len(errors) == 1, errors
    return errors[0]


def test_a_complete_claim_is_valid() -> None:
    assert validate_claim(claim(DEVICES)) == ()


def test_a_claim_without_requests_is_valid() -> None:
    assert validate_claim(claim({})) == ()


def test_a_claim_without_namespace_is_valid_because_clients_fill_it_in() -> None:
    assert validate_claim(claim(DEVICES, namespace="")) == ()


REQUESTS = "spec.devices.requests"
CASES = [
    pytest.param({"requests": [GPU | {"name": "Gpu"}]}, f"{REQUESTS}[0].name", "DNS label", id="request name"),
    pytest.param({"requests": [GPU | {"name": "g" * 64}]}, f"{REQUESTS}[0].name", "at most 63", id="request name long"),
    pytest.param({"requests": [GPU | {"name": ""}]}, f"{REQUESTS}[0].name", "required", id="request name empty"),
    pytest.param({"requests": [GPU, GPU]}, f"{REQUESTS}[1]", "duplicate of item 0", id="request name twice"),
    pytest.param(
        {"requests": [GPU | {"name": f"gpu-{i}"} for i in range(33)]}, REQUESTS, "at most 32", id="33 requests"
    ),
    pytest.param({"requests": [{"name": "gpu"}]}, f"{REQUESTS}[0]", "is required", id="neither exactly nor list"),
    pytest.param({"requests": [GPU | EITHER]}, f"{REQUESTS}[0]", "both are set", id="both exactly and list"),
    pytest.param(
        {"requests": [EITHER | {"firstAvailable": [EITHER["firstAvailable"][0]] * 2}]},
        f"{REQUESTS}[0].firstAvailable[1]",
        "duplicate",
        id="alternative twice",
    ),
    pytest.param(
        {"requests": [EITHER | {"firstAvailable": [{"name": f"sub-{i}", "deviceClassName": "gpu"} for i in range(9)]}]},
        f"{REQUESTS}[0].firstAvailable",
        "at most 8",
        id="9 alternatives",
    ),
    pytest.param(
        {"requests": [EITHER | {"firstAvailable": [{"name": "sub", "deviceClassName": "gpu", "count": -1}]}]},
        f"{REQUESTS}[0].firstAvailable[0].count",
        "greater than zero",
        id="alternative's count",
    ),
    pytest.param(exactly(deviceClassName=""), f"{REQUESTS}[0].exactly.deviceClassName", "required", id="no class"),
    pytest.param(
        exactly(deviceClassName="gpu_class"), f"{REQUESTS}[0].exactly.deviceClassName", "DNS subdomain", id="class name"
    ),
    pytest.param(exactly(count=-2), f"{REQUESTS}[0].exactly.count", "greater than zero, not -2", id="count negative"),
    pytest.param(
        exactly(allocationMode="All", count=1), f"{REQUESTS}[0].exactly.count", "must not be set", id="count with All"
    ),
    pytest.param(
        exactly(allocationMode="Some"),
        f"{REQUESTS}[0].exactly.allocationMode",
        "'Some' is not supported: expected ExactCount or All",
        id="mode unknown",
    ),
    pytest.param(
        exactly(selectors=[{"cel": {"expression": "true"}}] * 33),
        f"{REQUESTS}[0].exactly.selectors",
        "at most 32",
        id="33 selectors",
    ),
    pytest.param(exactly(selectors=[{}]), f"{REQUESTS}[0].exactly.selectors[0].cel", "required", id="empty selector"),
    pytest.param(
        exactly(selectors=[{"cel": {"expression": "é" * 5121}}]),
        f"{REQUESTS}[0].exactly.selectors[0].cel.expression",
        "10242 bytes, at most 10240",
        id="expression long",
    ),
    pytest.param(
        exactly(tolerations=[{"key": "a b"}]), f"{REQUESTS}[0].exactly.tolerations[0].key", "label key", id="tol. key"
    ),
    pytest.param(
        exactly(tolerations=[{"operator": "Exists", "value": "a"}]),
        f"{REQUESTS}[0].exactly.tolerations[0].value",
        "must be empty",
        id="toleration's value with Exists",
    ),
    pytest.param(
        exactly(tolerations=[{"key": "a", "value": "a b"}]),
        f"{REQUESTS}[0].exactly.tolerations[0].value",
        "label value",
        id="toleration's value",
    ),
    pytest.param(
        exactly(tolerations=[{"operator": "Like"}]),
        f"{REQUESTS}[0].exactly.tolerations[0].operator",
        "expected Equal or Exists",
        id="toleration's operator",
    ),
    pytest.param(
        exactly(tolerations=[{"operator": "Exists", "effect": "Evict"}]),
        f"{REQUESTS}[0].exactly.tolerations[0].effect",
        "expected NoExecute, NoSchedule, None",
        id="toleration's effect",
    ),
]
CONSTRAINTS = "spec.devices.constraints"
MATCH = {"matchAttribute": "rootport.dev/pcieSwitch"}
CASES += [
    pytest.param({"constraints": [MATCH] * 33, "requests": [GPU]}, CONSTRAINTS, "at most 32", id="33 constraints"),
    pytest.param(
        {"constraints": [MATCH | {"requests": ["nic"]}], "requests": [GPU]},
        f"{CONSTRAINTS}[0].requests[0]",
        "'nic' is neither a request of this claim",
        id="constraint on an unknown request",
    ),
    pytest.param(
        {"constraints": [MATCH | {"requests": ["either/huge"]}], "requests": [EITHER]},
        f"{CONSTRAINTS}[0].requests[0]",
        "'either/huge' is neither",
        id="constraint on an unknown alternative",
    ),
    pytest.param(
        {"constraints": [MATCH | {"requests": ["gpu/big"]}], "requests": [GPU]},
        f"{CONSTRAINTS}[0].requests[0]",
        "'gpu/big' is neither",
        id="constraint on an alternative of exactly",
    ),
    pytest.param(
        {"constraints": [MATCH | {"requests": ["either/big/x"]}], "requests": [EITHER]},
        f"{CONSTRAINTS}[0].requests[0]",
        "is neither",
        id="constraint's reference with two slashes",
    ),
    pytest.param(
        {"constraints": [MATCH | {"requests": ["gpu", "gpu"]}], "requests": [GPU]},
        f"{CONSTRAINTS}[0].requests[1]",
        "duplicate",
        id="constraint on a request twice",
    ),
    pytest.param(
        {"constraints": [{"requests": ["gpu"]}], "requests": [GPU]},
        f"{CONSTRAINTS}[0]",
        "one of matchAttribute and distinctAttribute is required",
        id="constraint without attribute",
    ),
    pytest.param(
        {"constraints": [{"matchAttribute": "pcieSwitch"}]},
        f"{CONSTRAINTS}[0].matchAttribute",
        "has no domain",
        id="matchAttribute without domain",
    ),
    pytest.param(
        {"constraints": [{"distinctAttribute": "rootport.dev/pcie-switch"}]},
        f"{CONSTRAINTS}[0].distinctAttribute",
        "C identifier",
        id="distinctAttribute's name",
    ),
    pytest.param(
        {"constraints": [{"matchAttribute": "/model"}]},
        f"{CONSTRAINTS}[0].matchAttribute",
        "empty domain",
        id="matchAttribute with an empty domain",
    ),
]
CONFIG = "spec.devices.config"
CASES += [
    pytest.param({"config": [DEVICES["config"][0]] * 33, "requests": [GPU]}, CONFIG, "at most 32", id="33 configs"),
    pytest.param(
        {"config": DEVICES["config"]}, f"{CONFIG}[0].requests[0]", "neither a request", id="config of unknown request"
    ),
    pytest.param({"config": [{}]}, f"{CONFIG}[0].opaque", "required", id="config without opaque"),
    pytest.param(
        {"config": [{"opaque": {"driver": "root_port", "parameters": {}}}]},
        f"{CONFIG}[0].opaque.driver",
        "driver name",
        id="config's driver",
    ),
    pytest.param(
        {"config": [{"opaque": {"driver": f"{'d' * 60}.dev", "parameters": {}}}]},
        f"{CONFIG}[0].opaque.driver",
        "at most 63",
        id="config's driver long",
    ),
    pytest.param(
        {"config": [{"opaque": {"driver": "rootport.dev"}}]},
        f"{CONFIG}[0].opaque.parameters",
        "required",
        id="config without parameters",
    ),
    pytest.param(
        {"config": [{"opaque": {"driver": "rootport.dev", "parameters": ["a"]}}]},
        f"{CONFIG}[0].opaque.parameters",
        "must be a JSON object",
        id="parameters no object",
    ),
    pytest.param(
        {"config": [{"opaque": {"driver": "rootport.dev", "parameters": {"a": "x" * 10240}}}]},
        f"{CONFIG}[0].opaque.parameters",
        "at most 10240",
        id="parameters long",
    ),
    pytest.param(
        {"config": [{"opaque": {"driver": "rootport.dev", "parameters": {"a": float("nan")}}}]},
        f"{CONFIG}[0].opaque.parameters",
        "is not JSON",
        id="parameters not JSON",
    ),
]


@pytest.mark.parametrize(("devices", "path", "message"), CASES)
def test_each_rule_is_one_error_with_its_field(devices: dict[str, Any], path: str, message: str) -> None:
    error = only(validate_claim(claim(devices)))
    assert error.path == path
    assert message in error.message


@pytest.mark.parametrize(("devices", "path", "message"), CASES)
def test_a_template_obeys_the_same_rules(devices: dict[str, Any], path: str, message: str) -> None:
    template = ResourceClaimTemplate.model_validate({"metadata": {"name": "a"}, "spec": {"spec": {"devices": devices}}})
    error = only(validate_claim_template(template))
    assert error.path == f"spec.{path}"
    assert message in error.message


def test_parameters_nested_beyond_all_reason_are_an_error_not_a_crash() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"a": nested}
    config = {"config": [{"opaque": {"driver": "rootport.dev", "parameters": {}}}]}
    valid = claim(config)
    opaque = valid.spec.devices.config[0].opaque
    assert opaque is not None
    opaque.__dict__["parameters"] = nested
    assert only(validate_claim(valid)).message == "is nested too deeply"
    while nested:  # let go of it step by step, since Python frees nested objects recursively
        nested = nested.pop("a")


def test_all_errors_come_at_once_in_the_order_of_the_fields() -> None:
    wrong = claim(
        {
            "requests": [
                {"name": "GPU", "exactly": {"count": -1, "allocationMode": "ExactCount", "selectors": [{}]}},
                {"name": "nothing"},
            ],
            "constraints": [{"requests": ["gpu"], "matchAttribute": "model"}],
            "config": [{"requests": ["gpu"]}],
        },
        name="A claim",
    )
    assert [error.path for error in validate_claim(wrong)] == [
        "metadata.name",
        "spec.devices.requests[0].name",
        "spec.devices.requests[0].exactly.deviceClassName",
        "spec.devices.requests[0].exactly.selectors[0].cel",
        "spec.devices.requests[0].exactly.count",
        "spec.devices.requests[1]",
        "spec.devices.constraints[0].requests[0]",
        "spec.devices.constraints[0].matchAttribute",
        "spec.devices.config[0].requests[0]",
        "spec.devices.config[0].opaque",
    ]


@pytest.mark.parametrize(
    ("metadata", "path", "message"),
    [
        pytest.param({"name": ""}, "metadata.name", "name or generateName is required", id="no name"),
        pytest.param({"name": "a_b"}, "metadata.name", "DNS subdomain", id="name"),
        pytest.param({"name": "a" * 254}, "metadata.name", "at most 253", id="name long"),
        pytest.param({"name": "", "generateName": "A-"}, "metadata.generateName", "DNS subdomain", id="generateName"),
        pytest.param({"namespace": "team.a"}, "metadata.namespace", "DNS label", id="namespace"),
        pytest.param({"labels": {"a b": ""}}, "metadata.labels", "label key", id="label's key"),
        pytest.param({"labels": {"x/y/z": ""}}, "metadata.labels", "more than one '/'", id="label's key slashes"),
        pytest.param({"labels": {"/z": ""}}, "metadata.labels", "empty domain", id="label's key without domain"),
        pytest.param({"labels": {"a": "-b"}}, "metadata.labels[a]", "label value", id="label's value"),
        pytest.param({"annotations": {"a b": ""}}, "metadata.annotations", "label key", id="annotation's key"),
        pytest.param({"annotations": {"a": "x" * 262144}}, "metadata.annotations", "at most 262144", id="annotations"),
    ],
)
def test_metadata_has_its_rules(metadata: dict[str, Any], path: str, message: str) -> None:
    error = only(validate_claim(claim(DEVICES, **metadata)))
    assert error.path == path
    assert message in error.message


@pytest.mark.parametrize("prefix", ["gpu-", "gpu--", "gpu"])
def test_a_generated_name_may_end_with_hyphens(prefix: str) -> None:
    assert validate_claim(claim(DEVICES, name="", generateName=prefix)) == ()


def test_annotations_may_have_upper_case_domains() -> None:
    assert validate_claim(claim(DEVICES, annotations={"Example.com/a": "b"})) == ()


def test_a_template_gives_claims_only_labels_and_annotations() -> None:
    wire = {"metadata": {"name": "a"}, "spec": {"metadata": {"name": "b", "namespace": "c", "labels": {"d": "e"}}}}
    errors = validate_claim_template(ResourceClaimTemplate.model_validate(wire))
    assert [error.path for error in errors] == ["spec.metadata.name", "spec.metadata.namespace"]


def test_error_reads_as_path_and_message() -> None:
    assert str(FieldError("spec.devices", "is required")) == "spec.devices: is required"


RESULT = {"request": "gpu", "driver": "rootport.dev", "pool": "node-a", "device": "gpu-0"}


@pytest.mark.parametrize(
    ("allocation", "path"),
    [
        pytest.param({"devices": {"results": [RESULT | {"request": "nic"}]}}, "devices.results[0].request", id="req."),
        pytest.param({"devices": {"results": [RESULT | {"driver": "../x"}]}}, "devices.results[0].driver", id="driver"),
        pytest.param({"devices": {"results": [RESULT | {"pool": "a//b"}]}}, "devices.results[0].pool", id="pool"),
        pytest.param({"devices": {"results": [RESULT | {"pool": ""}]}}, "devices.results[0].pool", id="pool empty"),
        pytest.param({"devices": {"results": [RESULT | {"pool": "a" * 254}]}}, "devices.results[0].pool", id="pool 2"),
        pytest.param({"devices": {"results": [RESULT | {"device": "../x"}]}}, "devices.results[0].device", id="device"),
        pytest.param(
            {"devices": {"results": [RESULT | {"shareID": "ABC"}]}}, "devices.results[0].shareID", id="share id"
        ),
        pytest.param({"devices": {"results": [RESULT] * 33}}, "devices.results", id="33 results"),
        pytest.param(
            {"devices": {"config": [{"source": "FromPod", "opaque": {"driver": "a.b", "parameters": {}}}]}},
            "devices.config[0].source",
            id="config's source",
        ),
        pytest.param({"nodeSelector": {}}, "nodeSelector.nodeSelectorTerms", id="node selector"),
    ],
)
def test_an_allocation_has_its_rules(allocation: dict[str, Any], path: str) -> None:
    wire = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [GPU]}}, "status": {"allocation": allocation}}
    assert only(validate_claim(ResourceClaim.model_validate(wire))).path == f"status.allocation.{path}"


CLASS: dict[str, Any] = {
    "metadata": {"name": "gpu.rootport.dev"},
    "spec": {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [{"opaque": {"driver": "rootport.dev", "parameters": {"kind": "GpuConfig"}}}],
        "extendedResourceName": "rootport.dev/gpu",
    },
}


def test_a_complete_class_is_valid() -> None:
    assert validate_device_class(DeviceClass.model_validate(CLASS)) == ()


@pytest.mark.parametrize(
    ("part", "fields", "path"),
    [
        pytest.param("metadata", {"name": "GPU"}, "metadata.name", id="name"),
        pytest.param("metadata", {"namespace": "team-a"}, "metadata.namespace", id="namespace"),
        pytest.param("spec", {"selectors": [{}]}, "spec.selectors[0].cel", id="empty selector"),
        pytest.param("spec", {"selectors": [{"cel": {}}] * 33}, "spec.selectors", id="33 selectors"),
        pytest.param("spec", {"config": [{}]}, "spec.config[0].opaque", id="empty config"),
        pytest.param("spec", {"config": [{}] * 33}, "spec.config", id="33 configs"),
        pytest.param(
            "spec", {"extendedResourceName": "gpu"}, "spec.extendedResourceName", id="resource without domain"
        ),
        pytest.param("spec", {"extendedResourceName": "a.kubernetes.io/b"}, "spec.extendedResourceName", id="native"),
        pytest.param("spec", {"extendedResourceName": "requests.a.b/c"}, "spec.extendedResourceName", id="quota"),
        pytest.param("spec", {"extendedResourceName": "a.b/c d"}, "spec.extendedResourceName", id="resource name"),
    ],
)
def test_a_class_has_its_rules(part: str, fields: dict[str, Any], path: str) -> None:
    wire = copy.deepcopy(CLASS)
    wire[part] |= fields
    assert only(validate_device_class(DeviceClass.model_validate(wire))).path == path
