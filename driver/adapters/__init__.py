"""Reads and writes the world outside: hosts, files, the Kubernetes API, HTTP. One sub-package for each source."""
