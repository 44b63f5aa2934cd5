"""A library that stands for HAMi-core's ``libvgpu.so``, and ones that are broken in every way that a node has seen."""

from tests.support.stub_hami.library import BROKEN, build, build_needing

__all__ = ["BROKEN", "build", "build_needing"]
