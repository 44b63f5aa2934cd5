"""The Kubernetes API as Rootport uses it: JSON objects over the official client, own errors, and a cache.

Only this package may import the client, and only ``connection`` and the kubeconfig modules do: ``resources`` and
``errors`` cost nothing to import. Begin at ``api`` and ``reflector``.
"""
