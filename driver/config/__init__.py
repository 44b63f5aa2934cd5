"""Opaque parameters: the API group ``rootport.dev/v1alpha1``, and which of a claim's entries applies to a device.

Pure: nothing here reads a file or raises for what a claim's author wrote. Every mistake comes back as a
:class:`~driver.api.validation.errors.FieldError`, all of them at once, so that the CLI, the plugin and an admission
webhook can each show them in their own way.
"""

from driver.config.entries import ConfigEntry, as_written, config_for, read_entries
from driver.config.kinds import (
    DeviceConfig,
    FpgaConfig,
    GpuConfig,
    GpuSharing,
    HamiCoreSettings,
    MigConfig,
    MpsSettings,
    TimeSlicingSettings,
    config_kind,
)
from driver.config.parse import MAX_DEPTH, MAX_PARAMETERS_BYTES, UnsupportedFieldError, parse_config
from driver.config.rdma import (
    MAX_INTERFACE_NAME,
    RdmaConfig,
    RdmaInterface,
    RdmaVfParameters,
    interface_name_error,
)
from driver.config.shares import ShareError, share_errors, small_amount

__all__ = [
    "MAX_DEPTH",
    "MAX_INTERFACE_NAME",
    "MAX_PARAMETERS_BYTES",
    "ConfigEntry",
    "DeviceConfig",
    "FpgaConfig",
    "GpuConfig",
    "GpuSharing",
    "HamiCoreSettings",
    "MigConfig",
    "MpsSettings",
    "RdmaConfig",
    "RdmaInterface",
    "RdmaVfParameters",
    "ShareError",
    "TimeSlicingSettings",
    "UnsupportedFieldError",
    "as_written",
    "config_for",
    "config_kind",
    "interface_name_error",
    "parse_config",
    "read_entries",
    "share_errors",
    "small_amount",
]
