"""Runs in the code of one version, which may be a former one: writes the NodeInventories of many simulated nodes.

``PYTHONPATH=<its tree> python nodes.py KUBECONFIG add|report COUNT``: with their Nodes and heartbeats, or alone, as a
plugin of that version does after it has taken over.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.machines import fpga, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.simulated_nodes import Nodes

__all__ = ["node_name"]


def node_name(number: int) -> str:
    """The name of one of the nodes, counted from 0."""
    return f"node-{number:03d}"


def main(kubeconfig: Path, what: str, count: int) -> None:
    """Each has four GPUs with MIG, two NICs with a GPU each under their switches, one with VFs, and an FPGA."""
    nodes = Nodes(kubeconfig)
    gpus = [mig_gpu(f"1{index}") for index in range(4)]
    nics = [nic("20", 0, "f0"), nic("21", 1, "f1"), nic("22", vfs=8)]
    for number in range(count):
        inventory = node(*gpus, *nics, fpga("30"), name=node_name(number))
        if what == "add":
            nodes.add(inventory)
        else:
            nodes.report(inventory)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
