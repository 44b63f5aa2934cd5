"""``rootport explain``: says why claims and pods are pending, and which smallest change would make one fit."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from driver.allocator.features import Features
from driver.budget import Budget
from driver.cli.explain_report import Known, print_explanation, print_pending
from driver.cli.feature_gates import features_of
from driver.cli.options import FILE, output_option
from driver.cli.output import NO_ANSWER, print_error, to_json
from driver.cli.progress import progress
from driver.errors import InputError, RootportError
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.judge.pending import pending_subjects
from driver.explain.known.cluster import Kind
from driver.explain.tell.wire import list_to_wire, to_wire

if TYPE_CHECKING:
    from driver.explain.known.state import ClusterState

__all__ = ["command"]

_KINDS: Final = {"claim": "ResourceClaim", "pod": "Pod"}
_ALIASES: Final = {
    **_KINDS,
    **dict.fromkeys(("claims", "resourceclaim", "resourceclaims", "resourceclaims.resource.k8s.io"), "ResourceClaim"),
    **dict.fromkeys(("pods", "po"), "Pod"),
}
_NOT_KNOWN: Final = 3

_ALL_S: Final = 60.0
_EACH_S: Final = 2.0
"""CPU seconds for all that is pending, and for each: some ten times as long as an ordinary claim takes in a cluster of
5,000 nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The claim or pod that is to be explained.

    Attributes:
        kind: Of the API; empty for all that is pending.
        namespace: None for the current one.
        name: Empty for all that is pending.
    """

    kind: str = ""
    namespace: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterFlags:
    """The flags that name a cluster."""

    dumps: Path | None
    kubeconfig: Path | None
    context: str | None
    feature_gates: str
    features: Features

    @property
    def again(self) -> str:
        """The flags in a shell's syntax, each with a space before it, for a command that asks the same cluster."""
        flags = {
            "--from": self.dumps,
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--feature-gates": self.feature_gates,
        }
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in flags.items() if value)


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :class:`_ClusterFlags`, passed on as one argument ``cluster``."""

    @wraps(command)
    def wrapped(
        dumps: Path | None, kubeconfig: Path | None, context: str | None, feature_gates: str, **rest: Any
    ) -> Any:
        features = features_of(feature_gates)
        flags = _ClusterFlags(
            dumps=dumps, kubeconfig=kubeconfig, context=context, feature_gates=feature_gates, features=features
        )
        return command(cluster=flags, **rest)

    options = (
        click.option(
            "--from",
            "dumps",
            type=FILE,
            help="A folder, or a file, of kubectl get -o yaml or json, instead of a cluster.",
        ),
        click.option("--kubeconfig", type=FILE, help="The cluster. [default: as kubectl's]"),
        click.option("--context", help="Of the kubeconfig. [default: the current one]"),
        click.option(
            "--feature-gates", default="", metavar="GATE=BOOL,...", help="Of the scheduler, where not 1.37's defaults."
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.command("explain", epilog="""\b
Examples:
  rootport explain                           # all that is pending, a line each
  rootport explain -A                        # the same, in all namespaces
  rootport explain claim ml/train            # namespace ml, of the current cluster
  rootport explain pod/train-0 -n ml         # all claims that the pod needs
  kubectl rootport explain pod train-0       # the same, as kubectl plugin
  rootport explain claim ml/train --from examples/explain
  rootport explain claim ml/train -o json | jq -r .reason

\b
A dump for --from, of a cluster that you cannot reach from here:
  kubectl get resourceslices,deviceclasses,nodes -o json >dump/cluster.json
  kubectl get resourceclaims,resourceclaimtemplates,pods -A -o json >dump/namespaces.json

\b
Exit codes: 0 it fits, has its devices or has ended (of all: nothing is
pending, or all of it fits); 1 it does not fit; 2 no answer: bad input, or the
cluster cannot be asked; 3 not known whether it fits: the answer says why.
""")  # fmt: skip
@click.argument("subject", nargs=-1, metavar="[claim|pod] [NAMESPACE/]NAME")
@_cluster_options
@click.option("-n", "--namespace", help="Of the claim or pod. [default: the context's; of a dump: default, or all]")
@click.option("-A", "--all-namespaces", is_flag=True, help="All that is pending, in all namespaces.")
@click.option("--proposals/--no-proposals", default=True, show_default=True, help="Look for changes that would help.")
@output_option("text", "json")
def command(
    subject: tuple[str, ...],
    cluster: _ClusterFlags,
    namespace: str | None,
    all_namespaces: bool,  # noqa: FBT001 - click passes flags so
    proposals: bool,  # noqa: FBT001 - as above
    output: str,
) -> int:
    """Explain why a claim or pod is pending, and what would make it fit; with no name, all that is pending.

    Counts per request how many devices each step leaves (class, selectors, capacity, taints, in use), says what each
    kind of node lacks, and finds the nearest miss: the smallest change to the claim, or the fewest other claims to end.
    Each is tried on the allocator before it is proposed. Nothing in the cluster is changed.
    """
    try:
        asked = _subject(subject, namespace)
        if all_namespaces and (asked.name or namespace is not None):
            raise InputError("--all-namespaces, and a name or --namespace too", hint="leave one of them out")
        state, current = _state(cluster, asked, all_namespaces=all_namespaces)
        # It stays until the end, and to look for garbage in a large cluster takes most of a second.
        gc.freeze()
        if not asked.name:
            return _all_pending(state, asked.kind, current, output, again=cluster.again)
        ref = ObjectRef(kind=asked.kind, namespace=current or "default", name=asked.name)
        explanation = Explainer(state, proposals=proposals).explain(ref)
    except RootportError as error:
        # 1 is an answer here: it does not fit.
        print_error(error)
        return NO_ANSWER
    if output == "json":
        click.echo(to_json(to_wire(explanation)), nl=False)
    else:
        print_explanation(explanation)
    return _code(explanation)


def _code(explanation: Explanation) -> int:
    if explanation.fits:
        return 0
    return 1 if explanation.is_known else _NOT_KNOWN


def _all_pending(state: ClusterState, kind: str, namespace: str | None, output: str, *, again: str) -> int:
    """Print a short answer for all that is pending; a namespace of None means all."""
    subjects = pending_subjects(state, namespace=namespace, kind=kind)
    explainer = Explainer(state, proposals=False)
    budget = Budget(_ALL_S)
    found: list[Explanation] = []
    with progress("explaining what is pending", len(subjects)) as step:
        for subject in subjects:
            if budget.is_spent:
                break
            found.append(explainer.explain(subject, budget=budget.part(_EACH_S)))
            step()
    left = subjects[len(found) :]
    decisive = [Kind(kind)] if kind else [Kind.POD, Kind.CLAIM]
    missing = [each.value for each in decisive if each in state.missing]
    is_known = not missing and not any(state.left_out.has(each) for each in (Kind.POD, Kind.CLAIM))
    if output == "json":
        click.echo(to_json(list_to_wire(found, not_explained=left, notes=state.notes)), nl=False)
    else:
        known = Known(is_all=is_known, missing=missing)
        print_pending(found, not_explained=left, notes=state.notes, namespace=namespace, known=known, again=again)
    codes = {_code(explanation) for explanation in found}
    if 1 in codes:
        return 1
    return 0 if codes <= {0} and is_known and not left else _NOT_KNOWN


def _subject(words: Sequence[str], namespace: str | None) -> _Subject:
    """Return what the arguments name; no arguments, or a kind alone, name all that is pending."""
    if len(words) > 2:
        raise InputError(f"{' '.join(words)!r}: too many arguments", hint="name one claim or pod")
    if not words:
        return _Subject(namespace=namespace)
    kind, name = words[0], words[1] if len(words) == 2 else ""
    if len(words) == 1:
        before, slash, after = kind.partition("/")  # kubectl's spelling
        if slash and before.lower() not in _ALIASES:
            raise InputError(f"{kind!r}: is that a claim or a pod?", hint=f"write claim {kind}, or pod {kind}")
        if slash and not after:
            raise InputError(f"{kind!r} names no {before}", hint=f"write {before}/NAME")
        kind, name = before, after
    known = _ALIASES.get(kind.lower())
    if known is None:
        raise InputError(f"{kind!r} cannot be explained", hint=f"name one of these kinds: {', '.join(_KINDS)}")
    if len(words) == 1 and not name:
        return _Subject(kind=known, namespace=namespace)
    before, slash, after = name.rpartition("/")
    if not after or (slash and not before) or "/" in before:
        raise InputError(f"{name!r} is no name of a {kind}", hint="write NAMESPACE/NAME, or NAME alone")
    if slash and namespace is not None and namespace != before:
        raise InputError(f"{name} is not in namespace {namespace}", hint="name the namespace once")
    return _Subject(kind=known, namespace=before or namespace, name=after)


def _state(flags: _ClusterFlags, asked: _Subject, *, all_namespaces: bool) -> tuple[ClusterState, str | None]:
    """Return the cluster, and the namespace: None for all, and for a dump if none is named."""
    with progress("reading objects") as step:
        # Imported here, as one needs no YAML of the other: the Kubernetes client alone takes half a second.
        if flags.dumps is not None:
            if flags.kubeconfig is not None or flags.context is not None:
                raise InputError("--from and --kubeconfig or --context: which cluster?", hint="leave one of them out")
            from driver.adapters.manifests.dumps import read_dumps  # noqa: PLC0415 - as said above

            return read_dumps(flags.dumps, features=flags.features, seen=step), asked.namespace
        from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above
        from driver.adapters.kubernetes.snapshot import read_cluster  # noqa: PLC0415 - as said above

        cluster = cluster_context(
            kubeconfig=flags.kubeconfig, context=flags.context, instead="name a folder or file of dumps with --from"
        )
        namespace = None if all_namespaces else asked.namespace or cluster.namespace
        with cluster.api as api:
            return read_cluster(api, namespace, features=flags.features, seen=step), namespace
