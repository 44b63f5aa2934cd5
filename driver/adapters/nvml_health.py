"""What NVML tells about how a GPU is: one reading."""

__all__: list[str] = []
