"""Reads Kubernetes objects from manifests and from dumps of a cluster."""
