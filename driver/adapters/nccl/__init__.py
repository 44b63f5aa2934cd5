"""Reads NCCL topology files."""
