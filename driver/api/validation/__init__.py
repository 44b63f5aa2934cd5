"""What the API server of Kubernetes 1.36 would refuse in objects of ``resource.k8s.io/v1``, and what it would default.

All errors of an object come at once, each with its field's path. What only concerns types and unknown fields is
reported by the models themselves when they read an object (:mod:`driver.api.resource_v1`).
"""

__all__: list[str] = []
