"""Makes an inventory from each source: a running node, a machine description, an NCCL topology file.

A new vendor's library or file format is merged into the inventory here.
"""
