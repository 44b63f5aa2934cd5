"""The Kubernetes API as Rootport uses it: JSON objects over the official client, errors of our own, and a cache.

The only package that may import the client (held by import-linter), and of its modules only ``connection`` does:
``resources`` and ``errors`` cost nothing to import. Begin at ``api`` and ``reflector``.
"""
