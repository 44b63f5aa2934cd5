"""Chooses the node, and the GPUs of it, for a pod: ranked, and each with the terms of its score. Pure."""
