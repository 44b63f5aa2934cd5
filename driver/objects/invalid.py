"""Pydantic's errors about Rootport's own objects, with the names that fields have on the wire."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ValidationError

from driver.api import rootport_v1alpha1
from driver.api.validation import wording
from driver.api.validation.errors import FieldError

__all__ = ["object_errors"]

# Pydantic names a field as the input had it; the model's dataclasses have Python's names.
_NAMES: Final = {
    field: info.alias
    for model in vars(rootport_v1alpha1).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for field, info in model.model_fields.items()
    if info.alias is not None
}


def object_errors(error: ValidationError) -> tuple[FieldError, ...]:
    """Return every mistake with its field, as Kubernetes writes it: ``spec.gpus[0].address``."""
    return wording.field_errors(error, names=_NAMES)
