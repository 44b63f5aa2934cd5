"""Reconciles Device objects."""
