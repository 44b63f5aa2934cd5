"""Judges which nodes and devices a pod's claims could have."""
