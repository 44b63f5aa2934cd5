"""Which DaemonSets are the device plugins of certain resources: no object says so, so their names have to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driver.migration.facts import DaemonSetFacts
from driver.rivals.resources import is_called_after, resource_rule

__all__ = ["Plugins", "plugins_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """DaemonSets of device plugins.

    Attributes:
        named: Those that are called as plugins of the resources are.
        certain: Those of them that are the only one for some resource.
    """

    named: tuple[DaemonSetFacts, ...] = ()
    certain: tuple[DaemonSetFacts, ...] = ()


def plugins_of(plugins: Sequence[DaemonSetFacts], resources: Iterable[str]) -> Plugins:
    """Return those that are called as the plugins of these resources are.

    Args:
        plugins: DaemonSets of device plugins, of whatever devices.
        resources: The names of extended resources.
    """
    rules = [rule for name in resources if (rule := resource_rule(name)) is not None]
    found = [[item for item in plugins if is_called_after(item.name, rule)] for rule in rules]
    named = {item.key for items in found for item in items}
    certain = {items[0].key for items in found if len(items) == 1}
    return Plugins(
        named=tuple(item for item in plugins if item.key in named),
        certain=tuple(item for item in plugins if item.key in certain),
    )
