"""What preparing a claim means, decided in pure code: which devices, which CDI spec, which environment, which files."""

from driver.plan.cdi import (
    CDI_VERSION,
    KIND,
    CdiDevice,
    CdiHook,
    CdiMount,
    CdiSpec,
    check_claim_uid,
    claim_uid_of,
    spec_file_name,
)
from driver.plan.decide import Decision, decide
from driver.plan.decided import DecidedDevice, NicPlan
from driver.plan.driver_files import DriverFiles, DriverLibrary, HookProgram, HostFile
from driver.plan.finish import PreparedDevice, PreparePlan, finish
from driver.plan.host import NicHost, host_folder
from driver.plan.isolation.provider import ClaimFile, HamiCoreLibrary, Isolation, IsolationHost
from driver.plan.prepare import prepare_plan
from driver.plan.uses import GpuUse, HeldDevice, NicUse

__all__ = [
    "CDI_VERSION",
    "KIND",
    "CdiDevice",
    "CdiHook",
    "CdiMount",
    "CdiSpec",
    "ClaimFile",
    "DecidedDevice",
    "Decision",
    "DriverFiles",
    "DriverLibrary",
    "GpuUse",
    "HamiCoreLibrary",
    "HeldDevice",
    "HookProgram",
    "HostFile",
    "Isolation",
    "IsolationHost",
    "NicHost",
    "NicPlan",
    "NicUse",
    "PreparePlan",
    "PreparedDevice",
    "check_claim_uid",
    "claim_uid_of",
    "decide",
    "finish",
    "host_folder",
    "prepare_plan",
    "spec_file_name",
]
