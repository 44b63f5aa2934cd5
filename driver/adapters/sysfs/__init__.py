"""Discovers PCI devices, GPUs, RDMA NICs and FPGAs in sysfs.

A new vendor's GPU starts in :mod:`.gpu`: its PCI vendor and classes, and a function that reads its attributes. The
vendor's name goes into ``driver/adapters/catalogue.py``, its models into ``catalogue.yaml`` beside it.
"""
