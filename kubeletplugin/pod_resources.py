"""Which containers have what, as the kubelet tells: the PodResources API."""

__all__: list[str] = []
