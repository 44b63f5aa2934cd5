"""Discovers what devices this node has."""
