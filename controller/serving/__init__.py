"""HTTPS: the server, what goes in and out of it, and who asks."""

__all__: list[str] = []
