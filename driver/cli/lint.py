"""``rootport lint``: finds claims that will hang or cost the scheduler a long search, before they are applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from driver.adapters.files.input_file import path_name
from driver.adapters.manifests.claims import ClaimManifest, Manifests, read_all_manifests, read_manifest_text
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import DeviceClass
from driver.budget import Budget
from driver.cli.left_out import machine_descriptions, passed_over
from driver.cli.lint_report import Located, located, located_problem, report, to_wire
from driver.cli.lint_sarif import to_sarif
from driver.cli.machines import Machines, machine_options
from driver.cli.options import FILE, output_option, policies_options, read_resources, resources_option
from driver.cli.output import NO_ANSWER, print_error, to_json
from driver.cli.progress import progress
from driver.convert import Settings
from driver.errors import InputError, RootportError
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import Vocabulary
from driver.layout.slices import resource_slices
from driver.lint import KnownClaims, Severity, Unrecorded, lint_claim, lint_class, lint_pod, unread, unrecorded
from driver.lint.published import published_devices
from driver.model.inventory import Inventory
from resourceclasses import device_classes_text

__all__ = ["command"]

_SECONDS: Final = 60.0
_PUBLISHED: Final = frozenset({Kind.SLICE, Kind.CLASS, Kind.NODE})
"""The kinds of objects that describe devices; who has them does not matter."""


@click.command("lint", epilog="""\b
Examples:
  rootport lint claim.yaml                        # what is wrong on every cluster
  kustomize build | rootport lint -               # standard input
  rootport lint deploy --topology topo.xml        # what such a machine has
  rootport lint claim.yaml --from dump            # a dump, as rootport explain takes it
  rootport lint claim.yaml --kubeconfig ~/.kube/config -o json
  rootport lint deploy --resources nics.yaml      # which resources are RDMA NICs
  rootport lint deploy -o sarif >lint.sarif       # for GitHub's code scanning

Each finding is FILE:LINE: severity: object: field: message [code];
docs/user/lint.md says what each code means. Severities: an error keeps the claim
from being allocated or prepared, a warning is likely not what was meant, and a
note is good to know.

Exit codes: 0 no errors (with --strict: no warnings either), 1 something found, a
file that cannot be read included, 2 there is nothing of that name or nothing in
standard input, or wrong options.
""")  # fmt: skip
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@click.option(
    "--from", "dumps", type=FILE, help="A folder, or a file, of kubectl get -o yaml or json: what the cluster has."
)
@machine_options(positional=False)
@policies_options
@resources_option
@click.option("--kubeconfig", type=FILE, help="The cluster to look at.")
@click.option("--context", help="Of the kubeconfig: look at this cluster.")
@click.option("--strict", is_flag=True, help="Warnings count as errors; notes do not.")
@output_option("text", "json", "sarif")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    files: tuple[Path, ...],
    dumps: Path | None,
    machines: Machines,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    device_policies: DevicePolicies,
    resources: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    strict: bool,  # noqa: FBT001 - click passes flags so
    output: str,
) -> int:
    """Check ResourceClaims, ResourceClaimTemplates, DeviceClasses and the pods that use them before they are applied.

    FILE is a file of manifests, a folder (with those below it), or - for standard input. What cannot be read is a
    finding, and the rest is checked all the same. Without a cluster, a dump or a machine, lint checks fields, types,
    parameters and the names of Rootport's own attributes; which devices there are it does not know.
    """
    try:
        if sum((dumps is not None, bool(machines), kubeconfig is not None or context is not None)) > 1:
            raise InputError("a machine, --from and --kubeconfig: which one has the devices?", hint="name one of them")
        resource_map = read_resources(resources)
        with progress("reading files"):
            given = read_all_manifests(files)
        others = sum(given.ignored.values()) - len(machine_descriptions(given))
        if not (given.claims or given.classes or others or given.problems or given.patches):
            without = "; ".join(passed_over(given, "lint")) or "no object of Kubernetes"
            raise InputError(
                f"there is nothing to check: {without}",
                hint="name the files or folders with manifests",
            )
        inventories = machines.read() if machines else []
        if machines:
            state: ClusterState | None = _machines(inventories, policies, nic_policies, device_policies)
        else:
            state = _cluster(dumps, kubeconfig, context)
        left_out = unrecorded(inventories) if machines or state is None else unread(state, is_dump=dumps is not None)
        findings = _findings(given, state, left_out, resource_map)
    except RootportError as error:
        # 1 is an answer here: something was found.
        print_error(error)
        return NO_ANSWER
    notes = [
        *_notes(given),
        *(() if state is None else state.notes),
        *(f"{machine.node}: {note}" for machine in inventories for note in machine.notes),
    ]
    if output == "sarif":
        click.echo(to_json(to_sarif(findings, given.paths, notes)), nl=False)
    elif output == "json":
        click.echo(to_json(to_wire(findings)), nl=False)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if output == "text":
        report(findings, objects=len(given.claims) + len(given.classes) + len(given.pods))
    severities = {item.finding.severity for item in findings}
    return 1 if Severity.ERROR in severities or (strict and Severity.WARNING in severities) else 0


def _notes(given: Manifests) -> Iterator[str]:
    """Return notes on what of the files was not checked."""
    yield from passed_over(given, "lint")
    if not given.claims and not given.classes and not given.problems:
        yield "no ResourceClaim, ResourceClaimTemplate or DeviceClass in the given files"


def _findings(
    given: Manifests, state: ClusterState | None, left_out: Unrecorded, resource_map: Settings
) -> list[Located]:
    classes_are_all = state is not None and bool(state.classes)
    classes = _classes(given, state)
    vocabulary = None if state is None else Vocabulary.of(published_devices(state), classes)
    if state is not None:
        # Selections and trials ask the state: it has to know the classes of the files as well.
        for device_class in classes.values():
            if state.classes.get(device_class.metadata.name) is not device_class:
                state.put(Kind.CLASS, device_class.to_wire())
    claims = {_key(item): item.claim for item in given.claims}
    known = KnownClaims(claims, classes, classes_are_all, resource_map)
    found = [located_problem(problem) for problem in given.problems]
    with progress("checking claims", len(given.claims)) as step, Budget(_SECONDS).in_force():
        found += [located(item, finding) for item in given.classes for finding in lint_class(item.device_class)]
        for item in given.claims:
            linted = lint_claim(
                item.claim,
                classes=classes,
                state=state,
                vocabulary=vocabulary,
                classes_are_all=classes_are_all,
                unrecorded=left_out,
            )
            found += [located(item, finding) for finding in linted]
            step()
        for pod in given.pods:
            namespace = pod.document.namespace or "default"
            found += [located(pod, finding) for finding in lint_pod(pod.pod, namespace, known)]
    return sorted(found, key=lambda item: (item.file, item.line))


def _key(item: ClaimManifest) -> tuple[str, str, str]:
    metadata = item.claim.metadata
    return item.document.kind, metadata.namespace, metadata.name


def _classes(given: Manifests, state: ClusterState | None) -> dict[str, DeviceClass]:
    """Return the classes of the cluster, or Rootport's own, and those of the files."""
    known = {} if state is None else dict(state.classes)
    if not known:
        ours = read_manifest_text(device_classes_text(), "resourceclasses").classes
        known = {item.device_class.metadata.name: item.device_class for item in ours}
    return known | {item.device_class.metadata.name: item.device_class for item in given.classes}


def _machines(
    machines: Sequence[Inventory], policies: GpuPolicies, nic_policies: NicPolicies, device_policies: DevicePolicies
) -> ClusterState:
    """Return a cluster of such machines."""
    state = ClusterState()
    for inventory in machines:
        node = inventory.node
        state.put(Kind.NODE, {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}})
        for part in resource_slices(
            inventory, policies=policies, nic_policies=nic_policies, device_policies=device_policies
        ):
            state.put(Kind.SLICE, part.to_wire())
    return state


def _cluster(dumps: Path | None, kubeconfig: Path | None, context: str | None) -> ClusterState | None:
    """Return the cluster that the user names, or None."""
    # Imported here, as one needs no YAML of the other: the Kubernetes client alone takes half a second.
    if dumps is not None:
        from driver.adapters.manifests.dumps import read_dumps  # noqa: PLC0415 - as said above

        with progress(f"reading {path_name(dumps)}"):
            return read_dumps(dumps, kinds=_PUBLISHED)
    if kubeconfig is None and context is None:
        return None
    from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above
    from driver.adapters.kubernetes.snapshot import read_published  # noqa: PLC0415 - as said above

    instead = "name a folder or file of dumps with --from"
    with cluster_context(kubeconfig=kubeconfig, context=context, instead=instead).api as api:
        return read_published(api)
