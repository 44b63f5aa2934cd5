"""Calls NVIDIA's management library (NVML): discovery, health, events and MIG; and finds the driver's files.

Another vendor's library gets a package like this one: its ``discovery`` returns the model's GPUs, which
:mod:`driver.adapters.machines.live` and the plugin's discovery merge with what sysfs shows. pyproject.toml's contracts
keep the binding in its package.
"""
