"""``rootport simulate``: places pods and allocates claims on simulated nodes, without a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from driver.adapters.files.output_folder import check_replaceable, replace_folder
from driver.adapters.manifests.claims import read_manifest_text, read_manifests
from driver.adapters.manifests.workloads import read_workloads
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.cli.machines import Machines, machine_options
from driver.cli.options import FILE, FOLDER, output_option, policies_options
from driver.cli.output import print_note, to_json, to_yaml
from driver.cli.progress import progress
from driver.cli.simulation_files import result_files
from driver.cli.simulation_report import notes_of, plan_notes, print_report, summary
from driver.convert.other_drivers.requests import CLASSES
from driver.errors import InputError
from driver.lint import check_claim, check_class
from driver.model.managed_nodes import POLICY_NAMES
from driver.simulation import InputClaim, SimulationInput, answers, simulate, simulation_input
from resourceclasses import device_classes_text

__all__ = ["command"]

_MAX_NODES: Final = 10_000
_CONVERT: Final = (
    "some pods or claims ask another system for devices; to simulate the claims that they become:"
    " rootport convert FILE... | rootport simulate ... --claims -"
)


@click.command("simulate", epilog="""\b
Examples:
  rootport simulate --topology topo.xml --claims examples --out out
  rootport simulate --topology topo.xml --nodes 100 --claims job.yaml -o json
  rootport simulate --topology topo.xml --nodes 100 --claims job.yaml --policy pack
Exit code: 0 all pods and claims can start, 1 some cannot, or it is not known,
  2 bad input (nothing written).
""")  # fmt: skip
@machine_options
@click.option(
    "--nodes", type=click.IntRange(1, _MAX_NODES), default=1, show_default=True, help="How many nodes of each machine."
)
@click.option(
    "--claims", "claim_paths", type=FILE, multiple=True,
    help="A file, or a folder of files, with claims, claim templates, pods (or Deployments, Jobs, ...) and"
    " DeviceClasses. Repeatable.",
)  # fmt: skip
@click.option(
    "--policy", type=click.Choice(POLICY_NAMES),
    help="Place pods as Rootport's placement does by this policy, and say how fragmented the GPUs are in the end."
    " [default: the first node that fits, which is not kube-scheduler's choice: it spreads pods]",
)  # fmt: skip
@click.option("--out", type=FOLDER, help="Write what a cluster would hold into this folder; replaces a former result.")
@policies_options
@output_option("table", "json", "yaml")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    machines: Machines,
    nodes: int,
    claim_paths: tuple[Path, ...],
    policy: str | None,
    out: Path | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    device_policies: DevicePolicies,
    output: str,
) -> int:
    """Allocate claims on simulated nodes and write their CDI files, without a cluster.

    Pods, and those of Deployments, StatefulSets, ReplicaSets, Jobs, JobSets and LeaderWorkerSets, are placed in the
    order of the files, each with all its claims on the first node that fits, by the rules of kube-scheduler, or with
    --policy on the best one, by those of Rootport's placement (docs/operator/placement.md). A claim or claim template
    that no pod in the files names is allocated once. FILE is a topology file, as with --topology.
    """
    if out is not None:
        check_replaceable(out)
    inventories = machines.read(copies=nodes)
    classes, work, notes = _manifests(claim_paths)
    with progress("simulating nodes and pods", len(inventories) + 2 * len(work.pods)) as step:
        simulation = simulate(
            inventories,
            classes,
            work,
            policies=policies,
            nic_policies=nic_policies,
            device_policies=device_policies,
            policy=policy or "",
            progress=step,
        )
        why = answers(simulation, progress=step)
        if out is not None:
            replace_folder(out, result_files(simulation))
    if output == "table":
        print_report(simulation, why, out)
        notes += [
            *notes_of(inventories, policies, device_policies),
            *plan_notes(simulation),
        ]  # the others have them in their data
    else:
        data = summary(simulation, why)
        click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
    for text in notes:
        print_note(text)
    return 0 if simulation.done else 1


def _is_of_another_driver(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> bool:
    """Whether the claim names a class of another driver that is not there, and that ``rootport convert`` knows."""
    return any(
        asked.device_class_name in CLASSES and asked.device_class_name not in classes
        for request in claim.spec.devices.requests
        for asked in (request.exactly, *request.first_available)
        if asked is not None
    )


def _manifests(paths: Sequence[Path]) -> tuple[list[DeviceClass], SimulationInput, list[str]]:
    """Read the user's files.

    Returns:
        The package's classes, with the user's in place of those of the same name; the pods and claims; notes.
    """
    notes: list[str] = []
    ours = read_manifest_text(device_classes_text(), "resourceclasses").classes
    given = read_manifests(paths)
    classes = {manifest.device_class.metadata.name: manifest.device_class for manifest in (*ours, *given.classes)}
    errors = [m.message(error) for m in given.classes for error in check_class(m.device_class)]
    errors += [m.message(error) for m in given.claims for error in check_claim(m.claim, classes)]
    if errors:
        raise InputError.of_all(errors)
    workloads = read_workloads(given.documents, classes)
    simulated = Counter(kind for _, kind in {(id(document), document.kind) for document, _ in workloads})
    rest = {kind: count - simulated[kind] for kind, count in given.ignored.items()}
    not_used = ", ".join(f"{count} {kind}" for kind, count in rest.items() if count)
    if not_used:
        notes.append(f"not used, of the given files: {not_used}")
    converting = any(workload.unclaimed is not None and workload.unclaimed.converts for _, workload in workloads)
    if converting or any(_is_of_another_driver(item.claim, classes) for item in given.claims):
        notes.append(_CONVERT)
    if workloads:
        notes.append("of pods, their devices alone are simulated: not their CPU, memory, affinity or taints")
    elif paths and not given.claims:
        notes.append("no ResourceClaim and no ResourceClaimTemplate in the given files")
    places = {id(document): place for place, document in enumerate(given.documents)}
    claims = [
        InputClaim(claim=item.claim, from_template=item.from_template, place=places[id(item.document)])
        for item in given.claims
    ]
    return list(classes.values()), simulation_input(claims, [workload for _, workload in workloads]), notes
