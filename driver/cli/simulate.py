"""``rootport simulate``: the main job in one command, on a laptop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.progress import Progress

from driver.adapters.manifests import ClaimManifest, read_manifest_text, read_manifests
from driver.adapters.nccl import read_topology
from driver.adapters.output_folder import check_replaceable, replace_folder
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import DeviceClass
from driver.cli.options import FILE, FOLDER, HardwareFlags, by_node, hardware_options, output_option, policies_options
from driver.cli.output import to_json, to_yaml
from driver.cli.render import console
from driver.cli.simulation_files import result_files
from driver.cli.simulation_options import NicFlags, nic_options
from driver.cli.simulation_report import print_report, summary
from driver.errors import InputError
from driver.lint import check_claim, check_class
from driver.model.inventory import Inventory
from driver.simulation import Simulation, simulate
from resourceclasses import device_classes_text

__all__ = ["command"]

_MAX_NODES = 10_000


@click.command("simulate", epilog="""\b
Examples:
  rootport simulate --topology topo.xml --claims examples --out out
  rootport simulate --topology topo.xml --nodes 100 --claims job.yaml -o json
Exit code: 0 all claims can start, 1 some cannot, 2 bad input (nothing written).
""")  # fmt: skip
@click.option(
    "--topology", "topologies", type=FILE, required=True, multiple=True,
    help="An NCCL topology file: one simulated node each. Repeatable.",
)  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, _MAX_NODES), default=1, show_default=True, help="Nodes per file.")
@click.option(
    "--claims", "claim_paths", type=FILE, multiple=True,
    help="A file, or a folder of files, with ResourceClaims, ResourceClaimTemplates and DeviceClasses. Repeatable.",
)  # fmt: skip
@click.option(
    "--out", type=FOLDER, help="Write slices, claims and CDI specs into this folder; replaces a former result."
)
@policies_options
@hardware_options
@nic_options
@output_option("table", "json", "yaml")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    topologies: tuple[Path, ...],
    nodes: int,
    claim_paths: tuple[Path, ...],
    out: Path | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    hardware: HardwareFlags,
    nics: NicFlags,
    output: str,
) -> int:
    """Allocate claims on simulated nodes and write their CDI files, without a cluster.

    Every claim and claim template in the given files is allocated once, in the order of the files, each on the first
    node that fits, by the rules of kube-scheduler.
    """
    if out is not None:
        check_replaceable(out)
    inventories = _inventories(topologies, nodes, hardware, nics)
    classes, claims = _manifests(claim_paths)
    simulation = _run(inventories, classes, claims, policies, nic_policies)
    if out is not None:
        replace_folder(out, result_files(simulation))
    if output == "table":
        print_report(simulation, out)
    else:
        data = summary(simulation)
        click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
    return 0 if all(outcome.done for outcome in simulation.outcomes) else 1


def _inventories(topologies: Sequence[Path], count: int, hardware: HardwareFlags, nics: NicFlags) -> list[Inventory]:
    files = by_node(topologies, hint="rename one of the files, or use --nodes to repeat one")
    hardware.check(files)
    names = {node: [node] if count == 1 else [f"{node}-{number}" for number in range(1, count + 1)] for node in files}
    # A flag for NICs means all nodes of a file by its name, or one of them by its own.
    nics.check([*files, *(name for of_file in names.values() for name in of_file)])
    inventories: list[Inventory] = []
    for node, path in files.items():
        inventory = read_topology(path, hardware=hardware.of(node))
        inventories.extend(nics.applied(inventory.renamed(name), name, node) for name in names[node])
    return inventories


def _manifests(paths: Sequence[Path]) -> tuple[list[DeviceClass], list[ClaimManifest]]:
    """The package's classes, replaced by the user's of the same name, and the user's claims; all checked."""
    ours = read_manifest_text(device_classes_text(), "resourceclasses").classes
    given = read_manifests(paths)
    classes = {manifest.device_class.metadata.name: manifest.device_class for manifest in (*ours, *given.classes)}
    errors = [m.message(error) for m in given.classes for error in check_class(m.device_class)]
    errors += [m.message(error) for m in given.claims for error in check_claim(m.claim, classes)]
    if errors:
        raise InputError.of_all(errors)
    passed_over = ", ".join(f"{count} {kind}" for kind, count in given.ignored.items())
    if passed_over:
        click.echo(f"note: passed over in the given files: {passed_over}", err=True)
    if paths and not given.claims:
        click.echo("note: no ResourceClaim and no ResourceClaimTemplate in the given files", err=True)
    return list(classes.values()), given.claims


def _run(
    inventories: list[Inventory],
    classes: list[DeviceClass],
    claims: list[ClaimManifest],
    policies: GpuPolicies,
    nic_policies: NicPolicies,
) -> Simulation:
    with Progress(console=console(stderr=True), transient=True, disable=len(claims) < 50) as progress:
        task = progress.add_task(f"allocating {len(claims)} claims on {len(inventories)} nodes", total=len(claims))
        return simulate(
            inventories,
            classes,
            [manifest.claim for manifest in claims],
            policies=policies,
            nic_policies=nic_policies,
            progress=lambda: progress.advance(task),
        )
