"""DeviceTaintRules: taints that an administrator puts on devices, whatever their driver publishes.

Source: k8s.io/dynamic-resource-allocation v0.36.3, resourceslice/tracker (applyPatches): a rule's taint comes behind
those that the driver published, on every device that all parts of its selector name; a rule without a selector names
them all. Several rules apply in no particular order there; here by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from driver.api.resource_v1 import Device, DeviceTaint, ResourceSlice
from driver.explain.known.cluster import TaintRule

__all__ = ["concerns", "selects", "with_rules"]


def selects(rule: TaintRule, *, driver: str, pool: str, device: str) -> bool:
    """Whether a rule taints a device."""
    return (
        (not rule.driver or rule.driver == driver)
        and (not rule.pool or rule.pool == pool)
        and (not rule.device or rule.device == device)
    )


def concerns(rule: TaintRule, item: ResourceSlice) -> bool:
    """Whether a rule taints some device of a slice."""
    driver, pool, devices = item.spec.driver, item.spec.pool.name, item.spec.devices
    if not devices or not selects(rule, driver=driver, pool=pool, device=rule.device):
        return False
    return not rule.device or any(device.name == rule.device for device in devices)


def with_rules(item: ResourceSlice, rules: Iterable[TaintRule]) -> ResourceSlice:
    """The slice with the rules' taints on its devices; the very same one where no rule concerns it."""
    applying = sorted((rule for rule in rules if concerns(rule, item)), key=lambda rule: rule.name)
    if not applying:
        return item
    driver, pool = item.spec.driver, item.spec.pool.name
    devices = tuple(
        _with_taints(
            device,
            tuple(rule.taint for rule in applying if selects(rule, driver=driver, pool=pool, device=device.name)),
        )
        for device in item.spec.devices
    )
    return item.model_copy(update={"spec": item.spec.model_copy(update={"devices": devices})})


def _with_taints(device: Device, taints: tuple[DeviceTaint, ...]) -> Device:
    return device.model_copy(update={"taints": (*device.taints, *taints)}) if taints else device
