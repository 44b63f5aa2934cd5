"""How devices and pools are named in allocation results and messages."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DeviceId", "PoolId"]


class PoolId(NamedTuple):
    """A pool's name is its driver's own: two drivers may use the same one."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device's name is unique in its pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def pool_id(self) -> PoolId:
        """Its pool."""
        return PoolId(self.driver, self.pool)
