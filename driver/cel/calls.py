"""Calls functions: the values decide which overload runs, as in cel-go.

Source of the rules: cel-go v0.29.2, common/decls/decls.go (dispatch) and common/types/types.go (runtime type guards).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from celpy.evaluation import CELEvalError

from driver.cel.containers import COLLECTIONS
from driver.cel.conversions import CONVERSIONS
from driver.cel.declarations import Overload, functions
from driver.cel.kubernetes import KUBERNETES
from driver.cel.meter import Meter
from driver.cel.operators import OPERATORS, Implementation
from driver.cel.strings import STRINGS
from driver.cel.types import CelType
from driver.cel.values import CelMap, Value, fail, type_name

__all__ = ["Function"]

_IMPLEMENTATIONS: Final[dict[str, Implementation]] = OPERATORS | CONVERSIONS | STRINGS | COLLECTIONS | KUBERNETES
# cel-go gives all overloads of these one implementation, which looks at the values only.
_BY_VALUE: Final = frozenset(
    {*(f"_{operator}_" for operator in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=")), "-_", "!_", "@in"}
    | {"size", "sort", "matches"}
)
# Declared by Kubernetes for admission policies; a selector has no value that these could be called with.
_UNREACHABLE: Final = "kubernetes.authorization."
# These check their arguments themselves (cel-go, DisableTypeGuards).
_UNGUARDED: Final = frozenset({"list_flatten"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the expression, ready to be called.

    Attributes:
        name: The function's full name.
        overload: The one overload that the checker chose; empty if it left several open.
        candidates: The overloads that may run.
    """

    name: str
    overload: str
    candidates: tuple[tuple[Overload, Implementation], ...]

    @classmethod
    def resolve(cls, name: str, overloads: tuple[str, ...], arity: int) -> Function | None:
        """Return the function of a checked call; None if Rootport does not implement all that may run."""
        overload = overloads[0] if len(overloads) == 1 else ""
        open_ = name in _BY_VALUE or not overload
        candidates = [
            candidate
            for candidate in functions()[name]
            if len(candidate.parameters) == arity
            and (open_ or candidate.id == overload)
            and not any(parameter.name.startswith(_UNREACHABLE) for parameter in candidate.parameters)
        ]
        if any(candidate.id not in _IMPLEMENTATIONS for candidate in candidates):
            return None
        return cls(name, overload, tuple((candidate, _IMPLEMENTATIONS[candidate.id]) for candidate in candidates))

    def __call__(self, meter: Meter, arguments: list[Value]) -> Value:
        """Return the result, or the error as a value.

        Raises:
            BudgetExceededError: The call costs too much.
        """
        for overload, implementation in self.candidates:
            if overload.id in _UNGUARDED or all(map(_accepts, overload.parameters, arguments)):
                return self._run(implementation, meter, arguments)
        return fail(f"no such overload: {self.name}({', '.join(map(type_name, arguments))})")

    def _run(self, implementation: Implementation, meter: Meter, arguments: list[Value]) -> Value:
        try:
            return implementation(meter, *arguments)
        except CELEvalError as error:
            return error
        except ZeroDivisionError:
            return fail("modulus by zero" if self.name == "_%_" else "division by zero")
        except (ValueError, OverflowError) as error:
            # cel-python's message is just "overflow".
            return fail("integer overflow" if str(error) == "overflow" else str(error))


def _accepts(parameter: CelType, value: Value) -> bool:
    """Whether a value may be passed; for a list or map its first entry decides."""
    if parameter.is_dyn or parameter.is_parameter:
        return True
    if parameter.name != type_name(value):
        return False
    if isinstance(value, list) and value:
        return _accepts(parameter.params[0], value[0])
    if isinstance(value, CelMap) and len(value):
        key, item = next(iter(value.items()))
        return _accepts(parameter.params[0], key) and _accepts(parameter.params[1], item)
    return True
