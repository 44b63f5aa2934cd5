"""The policies by which places are ranked, by the names under which users choose them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.placement.policies.first_fit import FirstFit
from driver.placement.policies.pack import Pack
from driver.placement.policies.policy import Choice, Key, Policy
from driver.placement.policies.spread import Spread

__all__ = ["POLICIES", "Choice", "Key", "Policy"]

POLICIES: Final[Mapping[str, Policy]] = {policy.name: policy for policy in (Pack(), Spread(), FirstFit())}
