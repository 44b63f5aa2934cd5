"""What helps a claim whose class selects GPUs by a strategy for shares that none of them offers."""

from __future__ import annotations

from driver import DRIVER_NAME
from driver.config.gpu_classes import SHARED_GPU_CLASSES, class_of_strategy
from driver.explain.known.vocabulary import Vocabulary
from driver.layout.attributes import SHARING_STRATEGY

__all__ = ["missing_strategy"]


def missing_strategy(device_class: str, vocabulary: Vocabulary) -> str | None:
    """Return what helps, for a person; None where the class is not one of those, or some GPU offers its strategy.

    Args:
        device_class: The class's name.
        vocabulary: The names and values of the devices that are published.
    """
    if device_class not in SHARED_GPU_CLASSES:
        return None
    kind, wanted = SHARED_GPU_CLASSES[device_class]
    offered = [value for value, _ in vocabulary.values(f"{DRIVER_NAME}/{SHARING_STRATEGY}")]
    others = [class_of_strategy(kind, each) for each in offered if (kind, each) in SHARED_GPU_CLASSES.values()]
    if not others or wanted in offered:
        return None
    return (
        f"no GPU offers strategy {wanted}: an administrator sets strategy: {wanted} in the GpuPolicies, or ask for "
        f"class {' or '.join(others)}, whose GPUs are there"
    )
