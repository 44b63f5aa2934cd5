"""Writes claims for GPUs and the RDMA NICs next to them, group by group."""

from driver.pairs.claim import SCOPE_ATTRIBUTES, claim_spec
from driver.pairs.nic_per import nics_per_place
from driver.pairs.request import PairsRequest, Scope

__all__ = ["SCOPE_ATTRIBUTES", "PairsRequest", "Scope", "claim_spec", "nics_per_place"]
