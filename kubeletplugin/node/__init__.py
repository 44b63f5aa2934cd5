"""The devices that this node has: discovered again and again, and checked for whether a container could use them."""

__all__: list[str] = []
