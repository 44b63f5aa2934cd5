"""What preparing a claim means, decided in pure code: which devices, which CDI spec, which environment."""

from driver.plan.cdi import (
    CDI_VERSION,
    KIND,
    CdiDevice,
    CdiSpec,
    claim_uid_of,
    spec_file_name,
)
from driver.plan.prepare import PreparedDevice, PreparePlan, prepare_plan

__all__ = [
    "CDI_VERSION",
    "KIND",
    "CdiDevice",
    "CdiSpec",
    "PreparePlan",
    "PreparedDevice",
    "claim_uid_of",
    "prepare_plan",
    "spec_file_name",
]
