"""What the API server sets where a claim says nothing."""

from __future__ import annotations

from driver.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from driver.api.validation.defaults import with_defaults

SPEC = {
    "devices": {
        "requests": [
            {"name": "bare", "exactly": {"deviceClassName": "gpu.rootport.dev"}},
            {"name": "two", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": 2}},
            {"name": "all", "exactly": {"deviceClassName": "gpu.rootport.dev", "allocationMode": "All"}},
            {
                "name": "either",
                "firstAvailable": [
                    {"name": "big", "deviceClassName": "gpu.rootport.dev", "tolerations": [{"key": "example.com/old"}]},
                    {
                        "name": "small",
                        "deviceClassName": "gpu.rootport.dev",
                        "tolerations": [{"operator": "Exists"}],
                    },
                ],
            },
        ]
    }
}


def test_a_request_without_mode_and_count_asks_for_exactly_one_device() -> None:
    bare = with_defaults(ResourceClaimSpec.model_validate(SPEC)).devices.requests[0].exactly
    assert bare is not None
    assert (bare.allocation_mode, bare.count) == ("ExactCount", 1)


def test_a_count_that_is_set_stays() -> None:
    two = with_defaults(ResourceClaimSpec.model_validate(SPEC)).devices.requests[1].exactly
    assert two is not None
    assert (two.allocation_mode, two.count) == ("ExactCount", 2)


def test_mode_all_gets_no_count() -> None:
    every = with_defaults(ResourceClaimSpec.model_validate(SPEC)).devices.requests[2].exactly
    assert every is not None
    assert (every.allocation_mode, every.count) == ("All", 0)


def test_alternatives_are_defaulted_as_well() -> None:
    either = with_defaults(ResourceClaimSpec.model_validate(SPEC)).devices.requests[3].first_available
    assert [(sub.allocation_mode, sub.count) for sub in either] == [("ExactCount", 1), ("ExactCount", 1)]


def test_a_toleration_without_operator_compares_for_equality() -> None:
    either = with_defaults(ResourceClaimSpec.model_validate(SPEC)).devices.requests[3].first_available
    assert [toleration.operator for sub in either for toleration in sub.tolerations] == ["Equal", "Exists"]


def test_a_claim_and_a_template_get_the_defaults_of_their_specification() -> None:
    claim = with_defaults(ResourceClaim.model_validate({"metadata": {"name": "a"}, "spec": SPEC}))
    template = with_defaults(ResourceClaimTemplate.model_validate({"metadata": {"name": "a"}, "spec": {"spec": SPEC}}))
    assert claim.spec == template.spec.spec == with_defaults(ResourceClaimSpec.model_validate(SPEC))


def test_defaulting_twice_changes_nothing_more() -> None:
    once = with_defaults(ResourceClaimSpec.model_validate(SPEC))
    assert with_defaults(once) == once


def test_a_device_class_has_no_defaults() -> None:
    device_class = DeviceClass.model_validate({"metadata": {"name": "gpu.rootport.dev"}})
    assert with_defaults(device_class) is device_class
