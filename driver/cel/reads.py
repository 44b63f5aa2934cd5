"""Finds which parts of a device an expression reads.

An answer depends on these alone, so that devices that agree in them share one evaluation; and they are what to show
when a selector is explained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from driver.cel import nodes
from driver.cel.checker import Checked
from driver.cel.nodes import Call, Ident, Node, Select, children

__all__ = ["Read", "read_of", "reads"]

Part: TypeAlias = Literal["driver", "allowMultipleAllocations", "attributes", "capacity"]

_PARTS: Final[dict[str, Part]] = {
    "driver": "driver",
    "allowMultipleAllocations": "allowMultipleAllocations",
    "attributes": "attributes",
    "capacity": "capacity",
}
_LOOKUPS: Final = frozenset({"_[_]", "_[?_]", "_?._"})


@dataclass(frozen=True, slots=True, order=True)
class Read:
    """One value of a device: ``device.driver``, or an attribute or capacity by domain and identifier.

    ``name`` is the attribute's or capacity's full name.
    """

    part: Part
    domain: str = ""
    id: str = ""
    name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.domain}/{self.id}")

    def __str__(self) -> str:
        if not self.domain:
            return f"device.{self.part}"
        return f'device.{self.part}["{self.domain}"].{self.id}'


def reads(checked: Checked) -> tuple[Read, ...] | None:
    """Return what the expression reads, sorted; None if it depends on the whole device (``in device.attributes``)."""
    found: set[Read] = set()
    seen: set[Node] = set()
    pending = [checked.root]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        read = read_of(node)
        if read is not None:
            found.add(read)
            continue
        if isinstance(node, Ident) and node.name == "device":
            return None
        pending.extend(children(node))
    return tuple(sorted(found))


def read_of(node: Node) -> Read | None:
    """Return the value that a whole path leads to, or None."""
    steps: list[str] = []
    while not isinstance(node, Ident):
        step = _step(node)
        if step is None:
            return None
        operand, name = step
        steps.append(name)
        node = operand
    part = _PARTS.get(steps[-1]) if steps and node.name == "device" else None
    if part in ("driver", "allowMultipleAllocations") and len(steps) == 1:
        return Read(part)
    if part in ("attributes", "capacity") and len(steps) == 3:
        return Read(part, domain=steps[1], id=steps[0])
    return None


def _step(node: Node) -> tuple[Node, str] | None:
    """Return the operand and the constant name of one selection or index."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in _LOOKUPS:
        operand, name = node.arguments
        if isinstance(name, nodes.Literal) and isinstance(name.value, str):
            return operand, name.value
    return None
