"""The variables that name a claim's NICs to NCCL, UCX and NVSHMEM.

Without them these libraries take every RDMA device that ``/sys/class/infiniband`` shows, and that is all of the host's.

Of two variables of one name a container has the last (container-device-interface v1.1.1, internal/ociedit). So the
lists grow from request to request in the order in which the runtime is given the devices: a container that takes the
whole claim has the whole list. One that takes a single request may see NICs of earlier requests, too; it has no device
nodes for those, and the libraries pass over what they cannot open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from driver.api.validation.errors import shown
from driver.errors import NodeError
from driver.model.devices import RdmaFunction

__all__ = ["nic_environment"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def nic_environment(devices: Sequence[tuple[str, RdmaFunction | None]], subject: str) -> dict[int, tuple[str, ...]]:
    """Return the variables, by the place of the device that carries them.

    Args:
        devices: Request and NIC of each device of a claim, in the allocation's order; None where no NIC is to be named.
        subject: Names the claim in the errors.

    Raises:
        NodeError: The inventory has a name that cannot stand in a list.
    """
    last = {request: place for place, (request, function) in enumerate(devices) if function is not None}
    named: list[RdmaFunction] = []
    variables: dict[int, tuple[str, ...]] = {}
    for request, place in sorted(last.items(), key=lambda item: item[1]):
        named += [function for of, function in devices if of == request and function is not None]
        variables[place] = _variables(list(dict.fromkeys(named)), subject)
    return variables


def _variables(functions: Sequence[RdmaFunction], subject: str) -> tuple[str, ...]:
    names = [_name(function, subject) for function in functions]
    ports = ",".join(
        f"{name}:{port}" for name, function in zip(names, functions, strict=True) for port in _ports(function)
    )
    return (
        # A second '=' asks for exactly these names: mlx5_1 alone would stand for mlx5_10 as well (NCCL, Environment
        # Variables, NCCL_IB_HCA).
        f"NCCL_IB_HCA=={','.join(names)}",
        f"UCX_NET_DEVICES={ports}",
        f"NVSHMEM_HCA_LIST={ports}",
    )


def _ports(function: RdmaFunction) -> Sequence[int]:
    active = [port.number for port in function.ports if port.state == "active"]
    return active or [port.number for port in function.ports[:1]] or [1]


def _name(function: RdmaFunction, subject: str) -> str:
    name = function.rdma_device or ""
    if _NAME.fullmatch(name) is None:
        raise NodeError(
            f"{subject}: {shown(name)} in the node's inventory is not the name of an RDMA device",
            hint="read the node's inventory again",
        )
    return name
