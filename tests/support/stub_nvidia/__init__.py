"""Programs that stand for NVIDIA's: ``nvidia-smi`` and ``nvidia-cuda-mps-control``, as real processes."""

from tests.support.stub_nvidia.library import InstalledPrograms, StubPrograms, build

__all__ = ["InstalledPrograms", "StubPrograms", "build"]
