"""``rootport explain``: why a claim is pending, and the smallest change that would make it fit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from driver.allocator.features import Features
from driver.cli.explain_report import print_explanation
from driver.cli.failure import tell
from driver.cli.feature_gates import features_of
from driver.cli.options import FILE, output_option
from driver.cli.output import to_json
from driver.errors import InputError, RootportError
from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.wire import to_wire

if TYPE_CHECKING:
    from driver.explain.state import ClusterState

__all__ = ["command"]

_KINDS: Final = {"claim": "ResourceClaim", "pod": "Pod"}
_ALIASES: Final = {
    **_KINDS,
    **dict.fromkeys(("claims", "resourceclaim", "resourceclaims", "resourceclaims.resource.k8s.io"), "ResourceClaim"),
    **dict.fromkeys(("pods", "po"), "Pod"),
}
_NO_ANSWER: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterFlags:
    """Which cluster is meant."""

    dumps: Path | None
    kubeconfig: Path | None
    context: str | None
    features: Features


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of :class:`_ClusterFlags`, handed on as one argument ``cluster``."""

    @wraps(command)
    def wrapped(
        dumps: Path | None, kubeconfig: Path | None, context: str | None, feature_gates: str, **rest: Any
    ) -> Any:
        features = features_of(feature_gates)
        flags = _ClusterFlags(dumps=dumps, kubeconfig=kubeconfig, context=context, features=features)
        return command(cluster=flags, **rest)

    options = (
        click.option(
            "--from", "dumps", type=FILE, help="A folder of kubectl get -o yaml or json, instead of a cluster."
        ),
        click.option("--kubeconfig", type=FILE, help="The cluster. [default: as kubectl's]"),
        click.option("--context", help="Of the kubeconfig. [default: the current one]"),
        click.option(
            "--feature-gates", default="", metavar="GATE=BOOL,...", help="Of the scheduler, where not 1.36's defaults."
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.command("explain", epilog="""\b
Examples:
  rootport explain claim ml/train            # namespace ml, of the current cluster
  rootport explain pod train-0 -n ml         # all claims that the pod needs
  kubectl rootport explain pod train-0       # the same, as kubectl plugin
  rootport explain claim ml/train --from examples/explain
  rootport explain claim ml/train -o json | jq -r .reason

\b
A dump for --from, of a cluster that you cannot reach from here:
  kubectl get resourceslices,deviceclasses,nodes -o json >dump/cluster.json
  kubectl get resourceclaims,resourceclaimtemplates,pods -A -o json >dump/namespaces.json

\b
Exit codes: 0 it fits or has its devices; 1 it does not fit; 2 no answer: bad
input, or the cluster cannot be asked.
""")  # fmt: skip
@click.argument("kind", metavar="claim|pod")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@_cluster_options
@click.option("-n", "--namespace", help="Of the claim or pod. [default: the context's]")
@click.option("--proposals/--no-proposals", default=True, show_default=True, help="Look for changes that would help.")
@output_option("text", "json")
def command(
    kind: str,
    name: str,
    cluster: _ClusterFlags,
    namespace: str | None,
    proposals: bool,  # noqa: FBT001 - click passes flags so
    output: str,
) -> int:
    """Tell why a claim is pending, and what would make it fit.

    Counts per request how many devices each step leaves (class, selectors, capacity, taints, in use), says what each
    kind of node lacks, and finds the nearest miss: the smallest change to the claim, or the fewest other claims to end.
    Each is tried on the allocator before it is told. Nothing in the cluster is changed.
    """
    try:
        kind, given_namespace, name = _subject(kind, name, namespace)
        state, namespace = _state(cluster, given_namespace)
        # It stays until the end, and to look for garbage in a large cluster takes most of a second.
        gc.freeze()
        subject = ObjectRef(kind=kind, namespace=namespace, name=name)
        explanation = Explainer(state, proposals=proposals).explain(subject)
    except RootportError as error:
        # 1 is an answer here: it does not fit.
        tell(error)
        return _NO_ANSWER
    if output == "json":
        click.echo(to_json(to_wire(explanation)), nl=False)
    else:
        print_explanation(explanation)
    return 0 if explanation.fits else 1


def _subject(kind: str, name: str, namespace: str | None) -> tuple[str, str | None, str]:
    """Kind, namespace (None: the current one) and name."""
    known = _ALIASES.get(kind.lower())
    if known is None:
        raise InputError(f"{kind!r} cannot be explained", hint=f"name one of these kinds: {', '.join(_KINDS)}")
    before, slash, after = name.rpartition("/")
    if not after or (slash and not before) or "/" in before:
        raise InputError(f"{name!r} is no name of a {kind}", hint="write NAMESPACE/NAME, or NAME alone")
    if slash and namespace is not None and namespace != before:
        raise InputError(f"{name} is not in namespace {namespace}", hint="name the namespace once")
    return known, before or namespace, after


def _state(flags: _ClusterFlags, namespace: str | None) -> tuple[ClusterState, str]:
    """The cluster, and the subject's namespace."""
    # Imported here, as one needs no YAML of the other: the Kubernetes client alone takes half a second.
    if flags.dumps is not None:
        if flags.kubeconfig is not None or flags.context is not None:
            raise InputError("--from and --kubeconfig or --context: which cluster?", hint="leave one of them out")
        from driver.adapters.dumps import read_dumps  # noqa: PLC0415 - as said above

        return read_dumps(flags.dumps, features=flags.features), namespace or "default"
    from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above
    from driver.adapters.kubernetes.snapshot import read_cluster  # noqa: PLC0415 - as said above

    cluster = cluster_context(
        kubeconfig=flags.kubeconfig, context=flags.context, instead="name a folder of dumps with --from"
    )
    namespace = namespace or cluster.namespace
    with cluster.api as api:
        return read_cluster(api, namespace, features=flags.features), namespace
