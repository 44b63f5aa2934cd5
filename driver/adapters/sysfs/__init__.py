"""Discovers PCI devices, GPUs, RDMA NICs and FPGAs in sysfs.

A new vendor's GPU starts in :mod:`.gpu`, which recognizes GPUs by class and driver; its vendor's name and its
models go into :mod:`driver.adapters.catalogue`.
"""
