"""A real Kubernetes for the tests: etcd, API server, scheduler, controller-manager, kubelet and containerd.

Everything is built once from Go modules and Debian packages into a cache outside the repository
(:mod:`cluster.binaries`). :mod:`cluster.control_plane` runs an API server on this machine; :mod:`cluster.node` runs a
whole cluster with one real node in namespaces of its own (:mod:`cluster.machine`), so that nothing of it is left on the
machine it runs on.
"""
