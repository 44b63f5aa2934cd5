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
from driver.plan.driver_files import DriverFiles, DriverLibrary, HookProgram, HostFile
from driver.plan.host_paths import host_folder
from driver.plan.metadata import MetadataFile
from driver.plan.prepare import PreparedDevice, PreparePlan, prepare_plan

__all__ = [
    "CDI_VERSION",
    "KIND",
    "CdiDevice",
    "CdiHook",
    "CdiMount",
    "CdiSpec",
    "DriverFiles",
    "DriverLibrary",
    "HookProgram",
    "HostFile",
    "MetadataFile",
    "PreparePlan",
    "PreparedDevice",
    "claim_uid_of",
    "host_folder",
    "prepare_plan",
    "spec_file_name",
]
