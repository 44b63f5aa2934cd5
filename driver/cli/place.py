"""``rootport place --dry-run``: shows where placement would put pods, and why there, before it is installed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from driver.adapters.manifests.claims import Manifests, read_manifest_text, read_manifests
from driver.adapters.manifests.workloads import read_workloads
from driver.cli.cluster_or_dump import ClusterFlags, cluster_options
from driver.cli.options import FILE, output_option
from driver.cli.output import NO_ANSWER, print_error, print_note, to_json
from driver.cli.place_report import Placed, print_placed, to_wire
from driver.cli.progress import progress
from driver.errors import InputError, RootportError
from driver.explain.known.cluster import Kind, PodState
from driver.lint import check_claim, check_class
from driver.model.managed_nodes import LABEL, MANAGED, POLICY_NAMES
from driver.placement.placer import Placer
from driver.simulation import InputClaim, simulation_input
from resourceclasses import device_classes_text

if TYPE_CHECKING:
    from driver.explain.known.state import ClusterState

__all__ = ["command"]

_MOST_PODS: Final = 1000


@click.command("place", epilog="""\b
Examples:
  rootport place --dry-run -f job.yaml                       # on the current cluster
  rootport place --dry-run -f job.yaml --policy spread       # the same by another policy
  rootport place --dry-run -f job.yaml --from dump --best 10 # on a dump, ten nodes
  rootport place --dry-run --pod train-0 -n ml               # a pod of the cluster that waits
  rootport place --dry-run -f job.yaml -o json | jq -r '.pods[].chosen.node'

\b
A dump for --from, of a cluster that you cannot reach from here:
  kubectl get resourceslices,deviceclasses,nodes -o json >dump/cluster.json
  kubectl -n rootport-system get lease rootport-controller -o json >dump/lease.json
  kubectl get resourceclaims,resourceclaimtemplates,pods -A -o json >dump/namespaces.json

Scores: lower figures are better. What they mean, and what each policy is for:
docs/operator/placement.md.

Exit codes: 0 all pods fit, 1 some do not, or it was not evaluated, 2 no answer: bad
input, or the cluster cannot be asked.
""")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show it. The controller places; this command never writes.")
@click.option(
    "-f", "--filename", "files", type=FILE, multiple=True,
    help="A file, a folder, or -, with pods (or Deployments, Jobs, ...) and their claims. Repeatable.",
)  # fmt: skip
@click.option("--pod", "names", metavar="[NAMESPACE/]NAME", multiple=True, help="A pod of the cluster. Repeatable.")
@click.option("-n", "--namespace", help="Of the pods that --pod names. [default: the context's; of a dump: default]")
@click.option(
    "--policy", type=click.Choice(POLICY_NAMES),
    help=f"How nodes are ranked. [default: as the controller that leads; where none places, {POLICY_NAMES[0]}]",
)  # fmt: skip
@click.option(
    "--nodes", type=click.Choice(("managed", "all")),
    help="Which nodes count. [default: the managed ones; all nodes of a cluster that has none]",
)  # fmt: skip
@click.option(
    "--best", type=click.IntRange(2, 100), default=3, show_default=True, help="How many nodes to show for each pod."
)
@cluster_options
@output_option("table", "json")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    dry_run: bool,  # noqa: FBT001 - click passes flags so
    files: tuple[Path, ...],
    names: tuple[str, ...],
    namespace: str | None,
    policy: str | None,
    nodes: str | None,
    best: int,
    cluster: ClusterFlags,
    output: str,
) -> int:
    """Show which node and devices placement would give to pods, and why these.

    Pods are placed one after the other, in the order of the files, each as if those before it were there. For each the
    best nodes are shown with the figures behind their scores, the devices that its claims would get, and a sentence
    that says why the first node comes before the second. Nothing in the cluster is changed.
    """
    try:
        if not dry_run:
            raise InputError("the controller places pods, this command only shows where", hint="add --dry-run")
        if not files and not names:
            raise InputError("no pods are given", hint="name files with -f, or pods of the cluster with --pod")
        given = read_manifests(files)
        state, _ = cluster.read(None, all_namespaces=True)
        gc.freeze()
        of_cluster = list(_of_cluster(names, state, lambda: namespace or cluster.own_namespace))
        pods = [*_of_files(given, state), *of_cluster]
        if not pods:
            hint = "name a file with pods and their claims, such as examples/managed-nodes/pods.yaml"
            raise InputError("no pod in the given files has claims, and no claim is there", hint=hint)
        own = state.placing.policy if state.placing is not None else ""
        by, whose = _policy(policy, own)
        managed_only = bool(state.managed_nodes) if nodes is None else nodes == "managed"
        placer = Placer(state, policy=by, managed_only=managed_only)
        placed = list(_placed(pods, placer, best))
    except RootportError as error:
        # 1 is an answer here: some pods do not fit.
        print_error(error)
        return NO_ANSWER
    if output == "json":
        click.echo(to_json(to_wire(placed, policy=by, managed_only=managed_only, notes=state.notes)), nl=False)
    else:
        print_placed(placed, policy=by)
        for text in _notes(state, placed, of_cluster, nodes, whose):
            print_note(text)
        for text in state.notes:
            print_note(text)
    return 0 if all(item.decision.chosen is not None for item in placed) else 1


def _policy(asked: str | None, own: str) -> tuple[str, str]:
    """Return the policy, and where it comes from, for people; empty for the option.

    Args:
        asked: That of the option.
        own: That of the controller that leads; empty where none is known to place.
    """
    if asked is not None:
        return asked, ""
    if own in POLICY_NAMES:
        return own, f"policy {own} is that of the controller that leads"
    default = POLICY_NAMES[0]
    return default, f"no controller is known to place here, so the policy is {default} (see --policy)"


def _notes(
    state: ClusterState, placed: Sequence[Placed], of_cluster: Sequence[PodState], nodes: str | None, whose: str
) -> Iterator[str]:
    """Yield what the reader should know, and what to do next."""
    if whose:
        yield whose
    if not state.managed_nodes and nodes is None:
        yield "no node of this cluster is managed, so all nodes count"
    elif not state.managed_nodes and nodes == "managed":
        yield f"to have nodes managed: kubectl label node NODE {LABEL}={MANAGED}; to see all nodes: --nodes all"
    waiting = {pod.key for pod in of_cluster}
    without = [item.pod.key for item in placed if item.pod.key in waiting and item.decision.chosen is None]
    if without:
        yield f"what the nodes' devices lack for it: rootport explain pod {without[0]}"


def _placed(pods: Sequence[PodState], placer: Placer, best: int) -> Iterator[Placed]:
    with progress("placing pods", len(pods)) as step:
        for pod in pods:
            decision, places = placer.ranked(pod, most=best)
            placer.assume(decision)
            step()
            yield Placed(pod, decision, places)


def _of_cluster(names: Sequence[str], state: ClusterState, namespace: Callable[[], str]) -> Iterator[PodState]:
    for name in names:
        of_name, slash, rest = name.rpartition("/")
        key = f"{of_name if slash else namespace()}/{rest}"
        pod = state.pod(key)
        if pod is None:
            hint = "only pods with claims are placed" if slash else "name its namespace with -n"
            raise InputError(f"there is no pod {key} with claims", hint=hint)
        yield pod


def _of_files(given: Manifests, state: ClusterState) -> list[PodState]:
    """Put the claims and pods of files into the cluster, and return the pods."""
    if not state.classes:
        for manifest in read_manifest_text(device_classes_text(), "resourceclasses").classes:
            state.put(Kind.CLASS, manifest.device_class.to_wire())
    for manifest in given.classes:
        state.put(Kind.CLASS, manifest.device_class.to_wire())
    errors = [item.message(error) for item in given.classes for error in check_class(item.device_class)]
    errors += [item.message(error) for item in given.claims for error in check_claim(item.claim, state.classes)]
    if errors:
        raise InputError.of_all(errors)
    workloads = read_workloads(given.documents, state.classes, for_nodes=True)
    places = {id(document): place for place, document in enumerate(given.documents)}
    claims = [
        InputClaim(claim=item.claim, from_template=item.from_template, place=places[id(item.document)])
        for item in given.claims
    ]
    work = simulation_input(claims, [workload for _, workload in workloads])
    if len(work.pods) > _MOST_PODS:
        raise InputError(f"{len(work.pods)} pods are more than {_MOST_PODS}", hint="place fewer at a time")
    for key, claim in work.claims.items():
        if state.claim(key) is None:
            state.put(Kind.CLAIM, claim.to_wire())
    for pod in work.pods:
        state.take_pod(pod.state)
    return [pod.state for pod in work.pods]
