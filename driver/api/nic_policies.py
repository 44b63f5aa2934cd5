"""``NicPolicies``: what an administrator lets be given of RDMA NICs, per model and per node (``--nic-policies``)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, StrictBool

from driver.api.policies import API_VERSION, AmountSteps, PoliciesDocument, PolicyForModels
from driver.api.quantity import Quantity

__all__ = ["DEFAULT_NIC_POLICIES", "BandwidthSteps", "NicPolicies", "NicPolicy", "VfMode"]

VfMode: TypeAlias = Literal["pooled", "named"]
"""How the VFs of a NIC are published: as one device of which a claim is given any, or each as a device of its own."""


class BandwidthSteps(AmountSteps):
    """Which bandwidths, in bits per second, a share of a NIC may have."""

    unit: ClassVar[str] = "bits per second"
    example: ClassVar[str] = "10G"

    minimum: Quantity = Quantity("1G")
    step: Quantity = Quantity("1G")


class NicPolicy(PolicyForModels):
    """The rules of some NICs.

    Attributes:
        vfs: How a NIC's VFs are published. VFs that are not alike are published by name whatever this says.
        sharing: Whether a NIC without VFs can be given to several claims at once, each with a part of its bandwidth. In
            RDMA's exclusive namespace mode none can, whatever this says.
        bandwidth: The bandwidths that a share may have. Nothing on the node enforces them.
    """

    vfs: VfMode = "pooled"
    sharing: StrictBool = True
    bandwidth: BandwidthSteps = BandwidthSteps()


_DEFAULT: Final = NicPolicy()


class NicPolicies(PoliciesDocument):
    """All rules; for a NIC the first that is for it holds, and the defaults where none is.

    Attributes:
        policies: The first match wins.
    """

    KIND: ClassVar[str] = "NicPolicies"

    kind: Literal["NicPolicies"]
    policies: Annotated[tuple[NicPolicy, ...], Field(max_length=1000)] = ()

    def of(self, *, model: str | None, node: str) -> NicPolicy:
        """The rules for a NIC (PF) of that model on that node, and for its VFs."""
        return next((policy for policy in self.policies if policy.is_for(model=model, node=node)), _DEFAULT)


DEFAULT_NIC_POLICIES: Final = NicPolicies.model_validate({"apiVersion": API_VERSION, "kind": NicPolicies.KIND})
"""VFs that are alike are pooled, whole NICs can be shared by any gigabit per second."""
