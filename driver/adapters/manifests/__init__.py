"""Reads Kubernetes objects from the manifests that users write and from dumps of a cluster."""
