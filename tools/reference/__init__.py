"""Writes docs/reference: ``python -m tools.reference``, with ``--check`` to find whether it is up to date."""
