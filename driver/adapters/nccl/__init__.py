"""Reads NCCL topology files: the elements, the PCI tree, and the devices in it.

A new vendor's GPU needs its PCI ids and models in ``driver/adapters/catalogue.yaml``, and code here only if NCCL
describes it by elements of its own (:mod:`.devices`).
"""
