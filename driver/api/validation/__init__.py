"""What the API server of Kubernetes 1.36 would refuse in objects of ``resource.k8s.io/v1``, and what it would default.

All errors of an object come at once, each with its field's path. What only concerns types and unknown fields is
reported by the models themselves when they read an object (:mod:`driver.api.resource_v1`).
"""

from driver.api.validation.claims import validate_claim, validate_claim_template, validate_device_class
from driver.api.validation.defaults import with_defaults
from driver.api.validation.errors import FieldError
from driver.api.validation.fragments import MAX_REQUESTS

__all__ = [
    "MAX_REQUESTS",
    "FieldError",
    "validate_claim",
    "validate_claim_template",
    "validate_device_class",
    "with_defaults",
]
