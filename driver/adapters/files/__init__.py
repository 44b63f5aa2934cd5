"""Reads and writes files: YAML, policies, CDI specs, folders of results."""
