"""HTTPS: the server, its certificates, and the authentication of callers."""

__all__: list[str] = []
