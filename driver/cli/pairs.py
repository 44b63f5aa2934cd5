"""``rootport pairs``: writes the claim for GPUs and the RDMA NICs next to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import click

from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    API_VERSION,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from driver.api.validation.claims import validate_claim, validate_claim_template
from driver.cli.machines import Machines, machine_options
from driver.cli.options import output_option, refuse_small_amount
from driver.cli.output import to_json, to_yaml
from driver.cli.pairs_report import TriedMachines
from driver.errors import InputError
from driver.model.inventory import Inventory
from driver.pairs import PairsRequest, Scope, claim_spec, nics_per_place

__all__ = ["command"]

_QUICK_LADDER: Final = 3
"""The most groups for which a ladder down to the node is quick. On a node with too few free NICs for it, kube-scheduler
searches that of three groups 0.2 s, of four 3 s (docs/user/joint-allocation.md)."""
_QUICK_TO_NUMA: Final = 4
"""Likewise for a ladder that ends at the NUMA node: 0.3 s with four groups, over 4 s with five."""
_CHOSEN: Final = "note: --scope {}, {}: kube-scheduler is slow to search a ladder of {} groups"
_FOR_THE_MACHINE: Final = "the nearest that the machine has room for"
_FOR_ANY_MACHINE: Final = "for nodes with PCIe switches (rootport topo shows them; without, use --scope root or numa)"
_FOR_NO_MACHINE: Final = "though the machine has no room for all groups with any one scope"
_TO_NUMA: Final = (
    "note: --farthest numa: kube-scheduler is slow to search a ladder of {} groups down to the node; a claim that no"
    " node can serve within its NUMA nodes waits"
)
_LADDER: Final = "leave one of them out, or use --scope ladder"
_ALL_OF_EACH: Final = "note: without --gpu-memory each share takes all memory of its GPU, and no other claim can use it"
_SLOW_LADDER: Final = (
    "note: a ladder of {} groups: on a node that has too few free devices for it, kube-scheduler tries every order of"
    " them, which takes seconds with {} groups and more (docs/user/joint-allocation.md); use --scope switch where the"
    " nodes have switches"
)


def _pairs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a :class:`PairsRequest`, passed on as one argument ``pairs``."""

    @wraps(command)
    def wrapped(  # noqa: PLR0913 - one each option, by name
        *,
        gpus: int,
        nics_wanted: int | None,
        nic_per: str | None,
        scope: str | None,
        farthest: str | None,
        vf: bool,
        gpu_core: str | None,
        gpu_memory: str | None,
        bandwidth: str | None,
        rails: str | None,
        **rest: Any,
    ) -> Any:
        pairs = PairsRequest(
            gpus=gpus,
            nics=gpus if nics_wanted is None else nics_wanted,
            # Where none is named it is chosen later; this one has the fewest constraints.
            scope=Scope(scope or (Scope.LADDER if farthest else Scope.SWITCH)),
            farthest=Scope(farthest or Scope.NODE),
            virtual_functions=vf,
            gpu_core=_quantity("--gpu-core", gpu_core),
            gpu_memory=_quantity("--gpu-memory", gpu_memory, of="memory"),
            bandwidth=_quantity("--bandwidth", bandwidth, of="bandwidth"),
            rails=_rails(rails),
        )
        _refuse_beside_nic_per(
            nic_per, {"--nics": nics_wanted, "--rails": rails, "--scope": scope, "--farthest": farthest}
        )
        if farthest is not None and scope not in (None, Scope.LADDER):
            raise InputError(f"--farthest {farthest} with --scope {scope}: only a ladder has a last rung", hint=_LADDER)
        choose_scope = scope is None and farthest is None
        return command(pairs=pairs, choose_scope=choose_scope, nic_per=nic_per and Scope(nic_per), **rest)

    options = (
        click.option("--gpus", type=int, default=1, show_default=True, help="How many GPUs."),
        click.option("--nics", "nics_wanted", type=int, help="How many RDMA NICs. [default: as many as GPUs]"),
        click.option(
            "--nic-per", type=click.Choice(["switch", "root", "numa"]),
            help="In place of --nics: a NIC for each switch, root or NUMA node that has GPUs of the claim, as the "
            "machine has them; GPUs of one share it.",
        ),
        click.option(
            "--scope", type=click.Choice([scope.value for scope in Scope if scope is not Scope.NODE]),
            help="How near: under one PCIe switch, one PCIe root, on one NUMA node, or the nearest. "
            "[default: ladder; with more than 4 groups the nearest that the machine has, or switch]",
        ),
        click.option(
            "--farthest", type=click.Choice(["root", "numa", "node"]),
            help="Where the ladder ends: a claim that finds nothing nearer waits. [default: node, which refuses "
            "nothing; numa with 4 groups]",
        ),
        click.option("--vf", is_flag=True, help="SR-IOV virtual functions instead of whole NICs."),
        click.option("--gpu-core", metavar="PERCENT", help="A share of each GPU: percent of its compute."),
        click.option(
            "--gpu-memory", metavar="QUANTITY",
            help="A share of each GPU: how much of its memory the claim gets, such as 39Gi. (How much there is, "
            "--gpu-model says.)",
        ),
        click.option("--bandwidth", metavar="QUANTITY", help="A share of each NIC: bits per second, such as 100G."),
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
  ladder  switch, else root, else numa, else anywhere on the node (--farthest ends it before),
          for each group by itself; slow with over 3 groups

\b
Examples:
  rootport pairs --gpus 4 --nics 4 --name train | kubectl apply -f -
  rootport pairs --gpus 8 --nics 4 --scope switch       # two GPUs with each NIC
  rootport pairs --gpus 8 --nic-per switch topo.xml     # as many NICs as there are switches
  rootport pairs --gpu-core 50 --gpu-memory 39Gi --vf   # half an H100 and a VF
  rootport pairs --gpus 2 --rails 0,1 --template        # the same rails on every node
  rootport pairs --gpus 8 --topology topo.xml >claim.yaml

Where a machine is named (FILE is a topology file), stderr says what it has room for.

Exit codes: 0 printed, and every named machine has room for the claim; 1 printed, and
one has no room, or it is not known; 2 bad input.
""")  # fmt: skip
@_pairs_options
@click.option("--template", is_flag=True, help="A ResourceClaimTemplate: a claim of its own for each pod.")
@click.option("--name", default="pairs", show_default=True, help="The object's name.")
@click.option("--namespace", default="", help="The object's namespace.")
@machine_options(gpu_memory=False)
@output_option("yaml", "json")
def command(
    pairs: PairsRequest,
    nic_per: Scope | None,
    choose_scope: bool,  # noqa: FBT001 - as click passes flags
    template: bool,  # noqa: FBT001 - click passes flags so
    name: str,
    namespace: str,
    machines: Machines,
    output: str,
) -> int:
    """Print a claim for GPUs and the RDMA NICs next to them.

    The greater number must be a multiple of the smaller one: 4 GPUs and 4 NICs are four pairs, 8 GPUs and 4 NICs four
    groups of two GPUs and a NIC. Requests are named nic-0, gpu-0, nic-1, ...; what was chosen of the ladder stands in
    the claim's status, as nic-0/switch.
    """
    inventories = machines.read() if machines else []
    tried = TriedMachines(inventories)
    if nic_per is not None:
        pairs = _with_a_nic_per(pairs, nic_per, inventories)
    elif choose_scope:
        pairs = _with_scope(pairs, tried)
    spec = claim_spec(pairs)
    metadata = ObjectMeta(name=name, namespace=namespace)
    claim = ResourceClaim(api_version=API_VERSION, kind="ResourceClaim", metadata=metadata, spec=spec)
    manifest = _template(metadata, spec) if template else claim
    errors = validate_claim(claim) if isinstance(manifest, ResourceClaim) else validate_claim_template(manifest)
    if errors:
        # Only what the user named can be wrong: the rest is ours.
        raise InputError.of_all([f"{error.path}: {error.message}" for error in errors])
    if pairs.shares_gpus and pairs.gpu_memory is None:
        click.echo(_ALL_OF_EACH, err=True)
    most = _QUICK_LADDER if pairs.farthest is Scope.NODE else _QUICK_TO_NUMA
    if pairs.scope is Scope.LADDER and pairs.groups > most:
        click.echo(_SLOW_LADDER.format(pairs.groups, most + 1), err=True)
    wire = manifest.to_wire()
    click.echo(to_json(wire) if output == "json" else f"{_comment(pairs)}{to_yaml(wire)}", nl=False)
    return tried.report(pairs)


def _with_scope(pairs: PairsRequest, tried: TriedMachines) -> PairsRequest:
    """Return the request with the best scope, for a user who names none, and say why where it matters."""
    if pairs.groups <= _QUICK_LADDER:
        return replace(pairs, scope=Scope.LADDER)
    if pairs.groups <= _QUICK_TO_NUMA:
        click.echo(_TO_NUMA.format(pairs.groups), err=True)
        return replace(pairs, scope=Scope.LADDER, farthest=Scope.NUMA)
    nearest = tried.nearest(pairs)
    why = _FOR_NO_MACHINE if tried else _FOR_ANY_MACHINE
    if nearest is not None:
        why = _FOR_THE_MACHINE
    scope = nearest or Scope.SWITCH
    click.echo(_CHOSEN.format(scope.value, why, pairs.groups), err=True)
    return replace(pairs, scope=scope)


def _with_a_nic_per(pairs: PairsRequest, place: Scope, inventories: Sequence[Inventory]) -> PairsRequest:
    """Return the request with as many NICs as the machines have places for its GPUs.

    Where no machine is named, each GPU has a share of a NIC, which GPUs of one place then have together.
    """
    if inventories:
        return replace(pairs, nics=nics_per_place(inventories, pairs.gpus, place), scope=place)
    if pairs.bandwidth is None and not pairs.virtual_functions:
        raise InputError(
            f"--nic-per {place.value} needs a machine, such as --topology FILE, to count NICs by",
            hint="for nodes that you do not know, add --bandwidth: each GPU gets a share of a NIC, and GPUs with one"
            f" {place.value} share it",
        )
    return replace(pairs, nics=pairs.gpus, scope=place)


def _refuse_beside_nic_per(nic_per: str | None, flags: Mapping[str, object]) -> None:
    beside = [flag for flag, value in flags.items() if value is not None]
    if nic_per is not None and beside:
        raise InputError(f"--nic-per {nic_per} and {beside[0]}: it says how many NICs, and how near; leave one out")


def _template(metadata: ObjectMeta, spec: ResourceClaimSpec) -> ResourceClaimTemplate:
    return ResourceClaimTemplate(
        api_version=API_VERSION,
        kind="ResourceClaimTemplate",
        metadata=metadata,
        spec=ResourceClaimTemplateSpec(spec=spec),
    )


def _comment(pairs: PairsRequest) -> str:
    gpu = "1 GPU" if pairs.gpus_each == 1 else f"{pairs.gpus_each} GPUs"
    nic = "VF" if pairs.virtual_functions else "RDMA NIC"
    of_each = f"{gpu} and {pairs.nics_each} {nic}{'' if pairs.nics_each == 1 else 's'}"
    nearness = {
        Scope.SWITCH: "under one PCIe switch",
        Scope.ROOT: "under one PCIe root",
        Scope.NUMA: "on one NUMA node",
        Scope.NODE: "anywhere on the node",
    }
    rungs = pairs.rungs if pairs.scope is Scope.LADDER else (pairs.scope,)
    near = ", else ".join(nearness[rung] for rung in rungs)
    lines = [f"# {of_each}, {near}." if pairs.groups == 1 else f"# {pairs.groups} times {of_each}, {near}."]
    if pairs.scope is Scope.LADDER:
        lines += [
            "# The claim's status names the rung, as nic-0/switch (-no-numa: no NUMA node is known of the device). A",
            "# constraint on rootport.dev/type says which parts of the lists do not go together: a NIC and a GPU are",
            "# never of one type.",
        ]
    return "".join(f"{line}\n" for line in lines)


def _quantity(flag: str, text: str | None, *, of: str = "") -> Quantity | None:
    if text is None:
        return None
    try:
        amount = Quantity(text)
    except ValueError as error:
        raise InputError(f"{flag}: {error}") from error
    refuse_small_amount(flag, of, amount)
    return amount


def _rails(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = text.split(",")
    wrong = [part for part in parts if not (part.isascii() and part.isdigit() and len(part) <= 6)]
    if wrong:
        raise InputError(f"--rails {text}: {wrong[0]!r} is not a rail", hint="name numbers, such as 0,1,2,3")
    return tuple(map(int, parts))
