"""``rootport explain``: says why claims and pods are pending, and which smallest change would make one fit."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from driver.budget import Budget
from driver.cli.cluster_or_dump import ClusterFlags, cluster_options
from driver.cli.explain_report import Known, print_explanation, print_pending
from driver.cli.options import output_option
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
  kubectl -n rootport-system get lease rootport-controller -o json >dump/lease.json
  kubectl get resourceclaims,resourceclaimtemplates,pods -A -o json >dump/namespaces.json

Exit codes: 0 it fits, has its devices or has ended (of all: nothing is
pending, or all of it fits); 1 it does not fit; 2 no answer: bad input, or the
cluster cannot be asked; 3 not known whether it fits: the answer says why.
""")  # fmt: skip
@click.argument("subject", nargs=-1, metavar="[claim|pod] [NAMESPACE/]NAME")
@cluster_options
@click.option("-n", "--namespace", help="Of the claim or pod. [default: the context's; of a dump: default, or all]")
@click.option("-A", "--all-namespaces", is_flag=True, help="All that is pending, in all namespaces.")
@click.option("--proposals/--no-proposals", default=True, show_default=True, help="Look for changes that would help.")
@output_option("text", "json")
def command(
    subject: tuple[str, ...],
    cluster: ClusterFlags,
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
        state, current = cluster.read(asked.namespace, all_namespaces=all_namespaces)
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
