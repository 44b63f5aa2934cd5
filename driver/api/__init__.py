"""The Kubernetes API as Rootport sees it: its own objects and those of ``resource.k8s.io/v1``, without a client."""

from typing import Final

__all__ = ["API_VERSION"]

API_VERSION: Final = "rootport.dev/v1alpha1"
"""The ``apiVersion`` of Rootport's own objects and parameters."""
