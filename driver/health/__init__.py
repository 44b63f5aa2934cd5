"""The health of devices: what readings and events mean, how long a fault lasts, and what it does to the device."""

__all__: list[str] = []
