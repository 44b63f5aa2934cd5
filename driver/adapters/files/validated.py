"""Makes models of a file's objects, and names every mistake with its file, line and field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from driver.adapters.files.document import Document
from driver.api.validation.wording import in_words
from driver.errors import LINES_SHOWN, InputError

__all__ = ["mistakes", "validated"]

M = TypeVar("M", bound=BaseModel)

Loc: TypeAlias = tuple[str | int, ...]
Describe: TypeAlias = Callable[[ErrorDetails, type[BaseModel] | None], str]


def validated(document: Document, model: type[M]) -> M:
    """Return the object of a document.

    Raises:
        InputError: The object is not valid: all mistakes in the order of their lines.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        found = mistakes(document, error, model)
        raise InputError.of_all([document.error(loc, message) for loc, message in found]) from error


def mistakes(
    document: Document, error: ValidationError, model: type[BaseModel], describe: Describe = in_words
) -> Sequence[tuple[Loc, str]]:
    """Return the field and the message of each mistake, in the order of their lines.

    Args:
        document: The object.
        error: The error that pydantic raised.
        model: The model that was validated.
        describe: Describes one mistake as :func:`~driver.api.validation.wording.in_words` does. Only for the first 20
            it gets the model: to find what 100,000 unknown fields may mean takes a minute.
    """
    details = error.errors(include_url=False)
    # A list whose items are all wrong is to pydantic a list without items as well.
    inner = {item["loc"][:length] for item in details for length in range(len(item["loc"]))}
    found = [item for item in details if item["type"] != "too_short" or item["loc"] not in inner]
    found.sort(key=lambda item: document.line(item["loc"]))
    return [(item["loc"], describe(item, model if index < LINES_SHOWN else None)) for index, item in enumerate(found)]
