"""What the leading controller shows of the cluster over HTTP: every node and every device, as they are now."""

__all__: list[str] = []
