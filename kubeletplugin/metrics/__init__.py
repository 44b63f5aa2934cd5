"""What Prometheus scrapes of a node's plugin."""

__all__: list[str] = []
