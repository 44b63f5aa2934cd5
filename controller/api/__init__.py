"""The read-only HTTP API of the leading controller: its own under /api/v1, and Koordinator's DeviceShare."""

__all__: list[str] = []
