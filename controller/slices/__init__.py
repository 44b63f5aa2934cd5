"""Reconciles the ResourceSlices of nodes."""
