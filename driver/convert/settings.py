"""What a conversion is told of the cluster, mostly by a mapping file: which resource names stand for which NICs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.convert.requests import NicRequest
from driver.ratios import NO_SIZES, Sizes

__all__ = ["DEFAULT", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """How to convert. Make one and keep it: what follows from it is remembered by its identity.

    Attributes:
        resources: The NICs that one unit of a resource stands for, by the resource's name. A name may end in ``*``.
        networks: The resource whose devices a NetworkAttachmentDefinition attaches, by its name or namespace/name.
        share_strategy: The strategy of shares of systems that kept containers within theirs, where the pod names none:
            ``hamiCore``; empty for Rootport's default, which limits nothing.
        left_alone: Resource names that stay in the object, such as those that a DeviceClass serves as extended
            resources.
        pod_paths: Where the pod templates of a kind are, by the kind: ``{"Fleet": ("spec.workers[*].podTemplate",)}``.
            Of any other kind they are looked for by their form.
        nic_bandwidth: Bits per second of a NIC of which a percentage is asked for.
        sizes: The sizes of the cluster's devices, over which percentages become lists of amounts; without them
            percentages stay.
    """

    resources: Mapping[str, NicRequest] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    share_strategy: str = ""
    left_alone: frozenset[str] = frozenset()
    pod_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nic_bandwidth: int = 100 * 10**9
    sizes: Sizes = NO_SIZES


DEFAULT: Final = Settings()
