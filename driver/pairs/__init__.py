"""Claims for GPUs and the RDMA NICs next to them, group by group. Pure."""

from driver.pairs.claim import claim_spec
from driver.pairs.wish import PairsWish, Scope

__all__ = ["PairsWish", "Scope", "claim_spec"]
