"""The Kubernetes API as Rootport uses it: JSON objects over two ways to send requests, own errors, and a cache.

Only ``client_transport`` and the kubeconfig modules import the official client; the kubelet plugin's requests are sent
by ``http_transport``. ``connection`` has the rules that hold for both. Begin at ``api`` and ``reflector``.
"""
