"""``rootport pairs``: the claim for GPUs and the RDMA NICs next to them, which nobody should write by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.nccl import read_topology
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    API_VERSION,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from driver.api.validation import validate_claim, validate_claim_template
from driver.cli.options import FILE, by_node, output_option
from driver.cli.output import to_json, to_yaml
from driver.cli.pairs_report import report
from driver.cli.simulation_options import NicFlags, nic_options
from driver.errors import InputError
from driver.pairs import PairsWish, Scope, claim_spec

__all__ = ["command"]

_QUICK_LADDER: Final = 4
"""Groups; one that does not fit on a node takes kube-scheduler 0.2 s with four, 2 s with five, over 10 s with more
(measured with Kubernetes' allocator v0.36.3 on an ND H100 v5: docs/user/joint-allocation.md)."""
_SLOW_LADDER: Final = (
    "note: on a node that has too few free devices for it, kube-scheduler searches a ladder of {} groups up to its"
    " limit of 10 s; use --scope switch where the nodes have switches"
)


def _wish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags of a :class:`PairsWish`, handed on as one argument ``wish``."""

    @wraps(command)
    def wrapped(
        *,
        gpus: int,
        nics_wanted: int | None,
        scope: str,
        vf: bool,
        gpu_core: str | None,
        gpu_memory: str | None,
        bandwidth: str | None,
        rails: str | None,
        **rest: Any,
    ) -> Any:
        wish = PairsWish(
            gpus=gpus,
            nics=gpus if nics_wanted is None else nics_wanted,
            scope=Scope(scope),
            virtual_functions=vf,
            gpu_core=_quantity("--gpu-core", gpu_core),
            gpu_memory=_quantity("--gpu-memory", gpu_memory),
            bandwidth=_quantity("--bandwidth", bandwidth),
            rails=_rails(rails),
        )
        return command(wish=wish, **rest)

    options = (
        click.option("--gpus", type=int, default=1, show_default=True, help="How many GPUs."),
        click.option("--nics", "nics_wanted", type=int, help="How many RDMA NICs. [default: as many as GPUs]"),
        click.option(
            "--scope", type=click.Choice([scope.value for scope in Scope]), default=Scope.LADDER.value,
            show_default=True, help="How near: under one PCIe switch, one PCIe root, on one NUMA node, or the nearest.",
        ),
        click.option("--vf", is_flag=True, help="SR-IOV virtual functions instead of whole NICs."),
        click.option("--gpu-core", metavar="PERCENT", help="Of each GPU, a share: so much of its compute ..."),
        click.option("--gpu-memory", metavar="QUANTITY", help="... and so much of its memory, such as 40Gi."),
        click.option("--bandwidth", metavar="QUANTITY", help="Of each NIC, a share in bits per second, such as 100G."),
        click.option("--rails", metavar="N,...", help="The rail of each NIC, such as 0,1,2,3."),
    )  # fmt: skip
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.command("pairs", epilog="""\b
How near:
  switch  below one PCIe switch: GPUDirect RDMA does not pass the CPU
  root    below one PCIe root, as machines without switches have it
  numa    on one NUMA node
  ladder  switch, else root, else numa, for each group by itself

\b
Examples:
  rootport pairs --gpus 4 --nics 4 --name train | kubectl apply -f -
  rootport pairs --gpus 8 --nics 4 --scope switch       # two GPUs with each NIC
  rootport pairs --gpu-core 50 --gpu-memory 40Gi --vf   # half a GPU and a VF
  rootport pairs --gpus 2 --rails 0,1 --template        # the same rails on every node
  rootport pairs --gpus 8 --topology topo.xml >claim.yaml
With --topology, stderr tells what the machine can give; exit code 1: no room for the claim.
""")  # fmt: skip
@_wish_options
@click.option("--template", is_flag=True, help="A ResourceClaimTemplate: a claim of its own for each pod.")
@click.option("--name", default="pairs", show_default=True, help="The object's name.")
@click.option("--namespace", default="", help="The object's namespace.")
@click.option(
    "--topology", "topologies", type=FILE, multiple=True,
    help="An NCCL topology file: tell what this machine can give. Repeatable.",
)  # fmt: skip
@click.option("--gpu-model", help="Model of the GPUs, such as H100, where the topology file does not name it.")
@nic_options
@output_option("yaml", "json")
def command(
    wish: PairsWish,
    template: bool,  # noqa: FBT001 - click passes flags so
    name: str,
    namespace: str,
    topologies: tuple[Path, ...],
    gpu_model: str | None,
    nics: NicFlags,
    output: str,
) -> int:
    """Print a claim for GPUs and the RDMA NICs next to them.

    The greater number must be a multiple of the smaller one: 4 GPUs and 4 NICs are four pairs, 8 GPUs and 4 NICs four
    groups of two GPUs and a NIC. Requests are named nic-0, gpu-0, nic-1, ...; what was chosen of the ladder stands in
    the claim's status, as nic-0/switch.
    """
    spec = claim_spec(wish)
    metadata = ObjectMeta(name=name, namespace=namespace)
    claim = ResourceClaim(api_version=API_VERSION, kind="ResourceClaim", metadata=metadata, spec=spec)
    manifest = _template(metadata, spec) if template else claim
    errors = validate_claim(claim) if isinstance(manifest, ResourceClaim) else validate_claim_template(manifest)
    if errors:
        # Only what the user named can be wrong: the rest is ours.
        raise InputError.of_all([f"{error.path}: {error.message}" for error in errors])
    nodes = by_node(topologies, hint="rename one of the files")
    nics.check(nodes)
    hardware = HardwareFacts(gpu_model=gpu_model)
    machines = [nics.applied(read_topology(path, hardware=hardware), node) for node, path in nodes.items()]
    if wish.scope is Scope.LADDER and wish.groups > _QUICK_LADDER:
        click.echo(_SLOW_LADDER.format(wish.groups), err=True)
    wire = manifest.to_wire()
    click.echo(to_json(wire) if output == "json" else f"{_comment(wish)}{to_yaml(wire)}", nl=False)
    return report(wish, claim, machines) if machines else 0


def _template(metadata: ObjectMeta, spec: ResourceClaimSpec) -> ResourceClaimTemplate:
    return ResourceClaimTemplate(
        api_version=API_VERSION,
        kind="ResourceClaimTemplate",
        metadata=metadata,
        spec=ResourceClaimTemplateSpec(spec=spec),
    )


def _comment(wish: PairsWish) -> str:
    gpu = "1 GPU" if wish.gpus_each == 1 else f"{wish.gpus_each} GPUs"
    nic = "VF" if wish.virtual_functions else "RDMA NIC"
    of_each = f"{gpu} and {wish.nics_each} {nic}{'' if wish.nics_each == 1 else 's'}"
    near = {
        Scope.SWITCH: "under one PCIe switch",
        Scope.ROOT: "under one PCIe root",
        Scope.NUMA: "on one NUMA node",
        Scope.LADDER: "under one PCIe switch, else under one PCIe root, else on one NUMA node",
    }[wish.scope]
    lines = [f"# {of_each}, {near}." if wish.groups == 1 else f"# {wish.groups} times {of_each}, {near}."]
    if wish.scope is Scope.LADDER:
        lines += [
            "# The claim's status tells the rung, as nic-0/switch. A constraint on rootport.dev/type says which parts",
            "# of the lists do not go together: a NIC and a GPU are never of one type.",
        ]
    return "".join(f"{line}\n" for line in lines)


def _quantity(flag: str, text: str | None) -> Quantity | None:
    if text is None:
        return None
    try:
        return Quantity(text)
    except ValueError as error:
        raise InputError(f"{flag}: {error}") from error


def _rails(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = text.split(",")
    wrong = [part for part in parts if not (part.isascii() and part.isdigit() and len(part) <= 6)]
    if wrong:
        raise InputError(f"--rails {text}: {wrong[0]!r} is not a rail", hint="name numbers, such as 0,1,2,3")
    return tuple(map(int, parts))
