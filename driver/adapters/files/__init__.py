"""Reads and writes files: YAML with lines, policies, CDI specs, folders of results."""
