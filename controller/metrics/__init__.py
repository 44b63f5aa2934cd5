"""What Prometheus scrapes of the controller."""

__all__: list[str] = []
