"""What is wrong with an object is said in the words of Kubernetes' API, whichever validator of pydantic found it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import pydantic.dataclasses
import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, core_schema

from driver.adapters.files.allocation_problems import AllocationProblem
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from driver.api.rootport_v1alpha1 import Device, NodeInventory
from driver.api.validation.wording import in_words

PYDANTIC = re.compile(
    r"input should|tuple|dictionary|instance of|value error|extra inputs|field required|parse", re.IGNORECASE
)
GENERIC = "is not valid here"
WRONG_VALUES: tuple[Any, ...] = (
    "x",
    "",
    "9" * 30,
    1,
    1.5,
    -1,
    10**30,
    float("nan"),
    True,
    None,
    [],
    [1],
    {},
    {"a": 1},
    b"x",
)
MODELS: list[type[BaseModel]] = [
    *(ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, AllocationProblem, GpuPolicies, NicPolicies),
    *(NodeInventory, Device),
]


def models_within(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if model in seen:
        return
    seen.add(model)
    yield model
    pending: list[Any] = [field.annotation for field in model.model_fields.values()]
    while pending:
        annotation = pending.pop()
        pending.extend(get_args(annotation))
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from models_within(annotation, seen)


def mistakes(model: type[BaseModel]) -> Iterator[ErrorDetails]:
    fields = [field.alias or name for name, field in model.model_fields.items()]
    inputs: list[Any] = [*WRONG_VALUES, *({field: value} for field in (*fields, "nonsense") for value in WRONG_VALUES)]
    inputs += [{field: [value]} for field in fields for value in WRONG_VALUES]
    for given in inputs:
        try:
            model.model_validate(given)
        except ValidationError as error:
            yield from error.errors(include_url=False)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_mistake_in_an_object_is_told_in_words_of_python(model: type[BaseModel]) -> None:
    said = {in_words(details): details for part in models_within(model, set()) for details in mistakes(part)}
    assert said
    assert [message for message in said if PYDANTIC.search(message)] == []
    assert [details["type"] for message, details in said.items() if message.startswith(GENERIC)] == []


def test_every_error_that_pydantic_knows_has_plain_words() -> None:
    names = (
        "gt",
        "ge",
        "lt",
        "le",
        "multiple_of",
        "min_length",
        "max_length",
        "pattern",
        "error",
        "expected",
        "expected_tags",
    )
    details = {"loc": (), "msg": "Input should be a valid tuple", "input": "x", "ctx": dict.fromkeys(names, 2)}
    messages = {kind: in_words({"type": kind, **details}) for kind in get_args(core_schema.ErrorType)}
    assert len(messages) > 100
    assert {kind: text for kind, text in messages.items() if not text or PYDANTIC.search(text)} == {}


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("40GB", "write 40G or 40Gi"),
        ("40 GB", "write 40G or 40Gi"),
        ("1.5gb", "write 1.5G or 1.5Gi"),
        ("512kb", "write 512k or 512Ki"),
        ("40GiB", "write 40Gi"),
        ("lots", "expected a number with an optional suffix such as 500m, 80Gi or 1e3"),
    ],
)
def test_a_quantity_with_bytes_for_its_unit_says_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        Quantity(text)
    assert str(caught.value).endswith(f": {instead}")


class _One(BaseModel):
    kind: Literal["one"]


class _Two(BaseModel):
    kind: Literal["two"]


@dataclasses.dataclass
class _Place:
    start: int


class _Stored(BaseModel):
    effect: Annotated[_One | _Two, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "is not JSON: EOF while parsing an object at line 1 column 1", id="cut-short"),
        pytest.param('{"effect": {"kind": "three"}}', "expected one of 'one', 'two'", id="unknown-kind"),
    ],
)
def test_a_damaged_file_is_told_from_one_of_another_version(text: str, message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        _Stored.model_validate_json(text)
    assert in_words(raised.value.errors()[0]) == message


def test_an_unknown_field_of_a_dataclass_is_an_unknown_field() -> None:
    strict = pydantic.dataclasses.dataclass(_Place, config=ConfigDict(extra="forbid"))
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(strict).validate_python({"start": 1, "end": 2})
    assert in_words(raised.value.errors()[0]) == "unknown field"
