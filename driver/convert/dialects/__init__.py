"""The dialects in the order in which they may read a container: what one of them reads is gone for the next."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from driver.convert.dialect import Dialect
from driver.convert.dialects.aliyun import ALIYUN
from driver.convert.dialects.amd import AMD
from driver.convert.dialects.hami import HAMI
from driver.convert.dialects.koordinator import KOORDINATOR
from driver.convert.dialects.networks import networks
from driver.convert.dialects.nvidia import NVIDIA
from driver.convert.dialects.tencent import ELASTIC_GPU, QGPU
from driver.convert.dialects.volcano import VOLCANO
from driver.convert.settings import Settings

__all__ = ["DIALECTS", "dialects_for"]

DIALECTS: Final[tuple[Dialect, ...]] = (KOORDINATOR, QGPU, ELASTIC_GPU, HAMI, VOLCANO, ALIYUN, AMD, NVIDIA)
"""Those that need no settings. NVIDIA's device plugin comes last: others use its resource's name in their own way."""


@lru_cache(maxsize=16)
def dialects_for(settings: Settings) -> tuple[Dialect, ...]:
    """Return the dialects that are read with these settings."""
    return (*DIALECTS, networks(settings))
