"""The Kubernetes API as Rootport sees it: quantities and the objects of ``resource.k8s.io/v1``, without a client."""
