"""Whether a pod may be on a node and has room there, apart from its devices: the rules of kube-scheduler's filters."""
