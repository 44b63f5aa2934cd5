"""A real Kubernetes for the tests: etcd, API server, scheduler, controller-manager, kubelet and containerd.

``binaries`` builds everything once from Go modules and Debian packages into a cache outside the repository.
``control_plane`` runs an API server on this machine; ``node`` runs a whole cluster with one real node in namespaces of
its own (``machine``), so that nothing of it is left on the machine it runs on. ``fixtures`` has what tests use of them.
"""
