"""NVML events: errors that the driver reports while somebody waits for them."""

__all__: list[str] = []
