"""Names that are not there, and those that were meant: classes, capacities, attributes of constraints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from driver.api.resource_v1 import DeviceSubRequest, ExactDeviceRequest
from driver.budget import check
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.propose.nearest.edits import demand_path, drop, put
from driver.explain.propose.nearest.options import Change, Effort, Operation, Option
from driver.explain.propose.nearest.search import ProposalSearch

__all__ = ["meant_names"]


def meant_names(search: ProposalSearch, vocabulary: Vocabulary) -> Iterator[Option]:
    """Yield one option for each wrong name, wherever it stands in the claims, and one for all of them together."""
    found: defaultdict[str, list[Change]] = defaultdict(list)
    for place, claim in enumerate(search.claims):
        for text, operations in _of_claim(search, place, vocabulary):
            found[text].append(Change(place=place, operations=operations))
        for index, constraint in enumerate(claim.spec.devices.constraints):
            for kind, attribute in (
                ("matchAttribute", constraint.match_attribute),
                ("distinctAttribute", constraint.distinct_attribute),
            ):
                meant = vocabulary.suggest_attribute(attribute) if attribute else None
                if meant is not None:
                    operation = put(meant, "constraints", index, kind)
                    found[f"write {kind} {meant} instead of {attribute}"].append(
                        Change(place=place, operations=(operation,))
                    )
    options = [Option(effort=Effort.MISTAKE, text=text, changes=tuple(changes)) for text, changes in found.items()]
    yield from options
    if len(options) > 1:
        yield Option(
            effort=Effort.MISTAKE,
            cost=len(options),
            text=", and ".join(option.text for option in options),
            changes=tuple(change for option in options for change in option.changes),
        )


def _of_claim(
    search: ProposalSearch, place: int, vocabulary: Vocabulary
) -> Iterator[tuple[str, tuple[Operation, ...]]]:
    claim = search.claims[place]
    for number, request in enumerate(claim.spec.devices.requests):
        parts: tuple[DeviceSubRequest | ExactDeviceRequest, ...] = request.first_available
        if request.exactly is not None:
            parts = (request.exactly,)
        check()
        for index, part in enumerate(parts):
            path = demand_path(claim, number, index)
            if part.device_class_name not in search.state.classes:
                meant = vocabulary.suggest_class(part.device_class_name)
                if meant is not None:
                    text = f"write device class {meant} instead of {part.device_class_name}"
                    yield text, (put(meant, *path, "deviceClassName"),)
            wanted = part.capacity.requests if part.capacity is not None else {}
            for name, amount in wanted.items():
                meant = vocabulary.suggest_capacity(name)
                if meant is not None and meant not in wanted:
                    where = (*path, "capacity", "requests")
                    yield (
                        f"write capacity {meant} instead of {name}",
                        (put(str(amount), *where, meant), drop(*where, name)),
                    )
