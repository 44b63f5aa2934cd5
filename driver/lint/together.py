"""Finds shares of GPUs that no node prepares in one claim, although each of them is right by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driver.config import GpuConfig
from driver.config.gpu_classes import SHARED_GPU_CLASSES
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.parts import Part

__all__ = ["unfit_together"]


def unfit_together(parts: Sequence[tuple[Part, GpuConfig | None, bool]]) -> Iterator[LintFinding]:
    """Find requests that :func:`driver.plan.isolate.refuse_conflicts` would refuse side by side.

    Args:
        parts: The claim's requests that have no alternatives: with the GpuConfig that applies, and whether it asks for
            shares. None where none applies.
    """
    strategies = [(part, _strategy(part, config), is_share) for part, config, is_share in parts]
    by_mps = [part for part, strategy, _ in strategies if strategy == "mps"]
    for part in by_mps[1:]:
        yield _error(
            part,
            f"request {part.name} is for another GPU with strategy mps beside request {by_mps[0].name}, and a program "
            "can use MPS on one GPU only",
            "put the request into a claim of its own, for a container of its own",
        )
    shares = [part for part, strategy, is_share in strategies if strategy == "hamiCore" and is_share]
    for part in shares[1:]:
        if _amounts(part) != _amounts(shares[0]):
            yield _error(
                part,
                f"requests {shares[0].name} and {part.name} are for unlike shares with strategy hamiCore, which has one"
                " limit for a container",
                "ask for equal shares, or put them into claims of their own",
            )


def _strategy(part: Part, config: GpuConfig | None) -> str | None:
    if config is not None and config.sharing.meant is not None:
        return config.sharing.meant
    return SHARED_GPU_CLASSES.get(part.spec.device_class_name, (None, None))[1]


def _amounts(part: Part) -> dict[str, object]:
    capacity = part.spec.capacity
    return {} if capacity is None else {key.rpartition("/")[2]: amount for key, amount in capacity.requests.items()}


def _error(part: Part, message: str, hint: str) -> LintFinding:
    return LintFinding(
        code=LintCode.PARAMETERS_INVALID, severity=Severity.ERROR, path=part.path, message=message, hint=hint
    )
