"""``rootport lint``: claims that will hang or cost the scheduler a long search, told before they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from driver.adapters.manifests import Manifests, read_manifest_text, read_manifests
from driver.adapters.nccl import read_topology
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import DeviceClass
from driver.cli.failure import tell
from driver.cli.lint_report import Located, located, report, to_wire
from driver.cli.options import FILE, HardwareFlags, by_node, hardware_options, output_option, policies_options
from driver.cli.output import to_json
from driver.cli.simulation_options import NicFlags, nic_options
from driver.errors import InputError, RootportError
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState
from driver.explain.vocabulary import Vocabulary
from driver.layout import resource_slices
from driver.lint import Severity, lint_claim, lint_class
from driver.lint.published import published_devices
from resourceclasses import device_classes_text

__all__ = ["command"]

_NO_ANSWER: Final = 2


@click.command("lint", epilog="""\b
Examples:
  rootport lint claim.yaml                        # what can be told without a cluster
  rootport lint examples --topology topo.xml      # what such a machine has
  rootport lint claim.yaml --from dump            # a dump, as rootport explain takes it
  rootport lint claim.yaml --kubeconfig ~/.kube/config -o json

\b
Each finding is FILE:LINE: severity: object: field: message [code]; docs/user/lint.md
tells what each code means.

\b
Exit codes: 0 no errors (with --strict: nothing found), 1 something found, 2 bad
input: no YAML, or an object that the API server would refuse.
""")  # fmt: skip
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@click.option("--from", "dumps", type=FILE, help="A folder of kubectl get -o yaml or json: what the cluster has.")
@click.option(
    "--topology", "topologies", type=FILE, multiple=True,
    help="An NCCL topology file: what such a machine would have. Repeatable.",
)  # fmt: skip
@policies_options
@hardware_options
@nic_options
@click.option("--kubeconfig", type=FILE, help="The cluster to look at.")
@click.option("--context", help="Of the kubeconfig: look at this cluster.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@output_option("text", "json")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    files: tuple[Path, ...],
    dumps: Path | None,
    topologies: tuple[Path, ...],
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    hardware: HardwareFlags,
    nics: NicFlags,
    kubeconfig: Path | None,
    context: str | None,
    strict: bool,  # noqa: FBT001 - click passes flags so
    output: str,
) -> int:
    """Check ResourceClaims, ResourceClaimTemplates and DeviceClasses before they are applied.

    FILE is a file of manifests, or a folder of them; what is neither of these kinds is passed over. Without a cluster,
    a dump or a topology file, it tells what is wrong on every cluster, and checks names of Rootport's own attributes.
    """
    try:
        given = read_manifests(files)
        if sum((dumps is not None, bool(topologies), kubeconfig is not None or context is not None)) > 1:
            raise InputError("--from, --topology and --kubeconfig: which one has the devices?", hint="name one of them")
        state = _machines(topologies, policies, nic_policies, hardware, nics) or _cluster(dumps, kubeconfig, context)
        findings = _findings(given, state)
    except RootportError as error:
        # 1 is an answer here: something was found.
        tell(error)
        return _NO_ANSWER
    if not given.claims and not given.classes:
        click.echo("note: no ResourceClaim, ResourceClaimTemplate or DeviceClass in the given files", err=True)
    if output == "json":
        click.echo(to_json(to_wire(findings)), nl=False)
    else:
        report(findings, objects=len(given.claims) + len(given.classes))
    bad = any(strict or item.finding.severity is Severity.ERROR for item in findings)
    return 1 if bad else 0


def _findings(given: Manifests, state: ClusterState | None) -> list[Located]:
    classes = _classes(given, state)
    vocabulary = None if state is None else Vocabulary.of(published_devices(state), classes)
    if state is not None:
        # Selections and trials ask the state: it has to know the classes of the files as well.
        for device_class in classes.values():
            if state.classes.get(device_class.metadata.name) is not device_class:
                state.put(Kind.CLASS, device_class.to_wire())
    found = [located(item, finding) for item in given.classes for finding in lint_class(item.device_class)]
    for item in given.claims:
        linted = lint_claim(item.claim, classes=classes, state=state, vocabulary=vocabulary)
        found += [located(item, finding) for finding in linted]
    return found


def _classes(given: Manifests, state: ClusterState | None) -> dict[str, DeviceClass]:
    """Those of the cluster, or Rootport's; and those of the files."""
    known = {} if state is None else dict(state.classes)
    if not known:
        ours = read_manifest_text(device_classes_text(), "resourceclasses").classes
        known = {item.device_class.metadata.name: item.device_class for item in ours}
    return known | {item.device_class.metadata.name: item.device_class for item in given.classes}


def _machines(
    topologies: Sequence[Path],
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    hardware: HardwareFlags,
    nics: NicFlags,
) -> ClusterState | None:
    """A cluster of such machines; None where no topology file is named."""
    nodes = by_node(topologies, hint="rename one of the files")
    hardware.check(nodes)
    nics.check(nodes)
    if not topologies:
        return None
    state = ClusterState()
    for node, path in nodes.items():
        inventory = nics.applied(read_topology(path, hardware=hardware.of(node)), node)
        state.put(Kind.NODE, {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}})
        for part in resource_slices(inventory, policies=policies, nic_policies=nic_policies):
            state.put(Kind.SLICE, part.to_wire())
    return state


def _cluster(dumps: Path | None, kubeconfig: Path | None, context: str | None) -> ClusterState | None:
    """The cluster that the user names, if any."""
    # Imported here, as one needs no YAML of the other: the Kubernetes client alone takes half a second.
    if dumps is not None:
        from driver.adapters.dumps import read_dumps  # noqa: PLC0415 - as said above

        return read_dumps(dumps)
    if kubeconfig is None and context is None:
        return None
    from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above
    from driver.adapters.kubernetes.snapshot import read_published  # noqa: PLC0415 - as said above

    instead = "name a folder of dumps with --from"
    with cluster_context(kubeconfig=kubeconfig, context=context, instead=instead).api as api:
        return read_published(api)
