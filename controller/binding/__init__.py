"""Tells each node which claims it is to prepare before their pods are bound (KEP-5007)."""
