"""Converts pods of opted-in namespaces as they are created, and collects the templates that no pod names any more."""
