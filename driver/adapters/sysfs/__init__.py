"""Discovers PCI devices, GPUs, RDMA NICs and FPGAs in sysfs."""
