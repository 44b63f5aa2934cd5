"""What pydantic says about an object, in Rootport's words."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ValidationError

from driver.api import rootport_v1alpha1
from driver.api.validation.errors import FieldError
from driver.api.validation.wording import in_words

__all__ = ["field_errors"]

# pydantic tells a field as the input had it; the model's dataclasses have Python's names.
_NAMES: Final = {
    field: info.alias
    for model in vars(rootport_v1alpha1).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for field, info in model.model_fields.items()
    if info.alias is not None
}


def field_errors(error: ValidationError) -> tuple[FieldError, ...]:
    """Every mistake with its field, as Kubernetes writes it: ``spec.gpus[0].address``."""
    details = error.errors(include_url=False)
    return tuple(FieldError(_path(detail["loc"]), in_words(detail)) for detail in details)


def _path(loc: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{_NAMES.get(step, step)}" for step in loc)
    return "".join(steps).removeprefix(".")
