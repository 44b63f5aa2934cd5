"""What preparing a claim means, decided in pure code: which devices, which CDI spec, which environment, which files."""

from driver.plan.cdi import (
    CDI_VERSION,
    KIND,
    CdiDevice,
    CdiHook,
    CdiMount,
    CdiSpec,
    claim_uid_of,
    spec_file_name,
)
from driver.plan.decide import DecidedDevice, Decision, decide
from driver.plan.driver_files import DriverFiles, DriverLibrary, HookProgram, HostFile
from driver.plan.finish import PreparedDevice, PreparePlan, finish
from driver.plan.gpu_use import GpuUse
from driver.plan.host_paths import host_folder
from driver.plan.isolation.interface import ClaimFile, HamiCoreLibrary, Isolation, IsolationHost
from driver.plan.nic_host import NicHost
from driver.plan.nic_use import NicUse
from driver.plan.nics import NicPlan
from driver.plan.prepare import prepare_plan

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
    "HookProgram",
    "HostFile",
    "Isolation",
    "IsolationHost",
    "NicHost",
    "NicPlan",
    "NicUse",
    "PreparePlan",
    "PreparedDevice",
    "claim_uid_of",
    "decide",
    "finish",
    "host_folder",
    "prepare_plan",
    "spec_file_name",
]
