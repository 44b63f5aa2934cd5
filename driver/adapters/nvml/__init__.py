"""Calls NVIDIA's management library (NVML): discovery, health, events and MIG; and finds the driver's files.

Another vendor's library gets a package like this one, named in pyproject.toml's import contracts: its ``discovery``
returns :class:`driver.model.devices.Gpu` objects, which :mod:`driver.model.merge` joins with those of sysfs.
"""
