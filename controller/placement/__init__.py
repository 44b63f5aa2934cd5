"""Allocates claims for the devices of managed nodes: kube-scheduler reserves and binds what this allocates."""
