"""``rootport top``: shows what the GPUs do now, and who has them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Final

import click

from driver.cli.cluster_options import Connect, check_node_name, connect_option
from driver.cli.options import output_option
from driver.cli.output import NO_ANSWER, print_error, to_json
from driver.cli.progress import progress
from driver.errors import InputError, RootportError

if TYPE_CHECKING:
    from driver.adapters.kubernetes.api import KubernetesApi
    from driver.adapters.kubernetes.status_objects import PluginPod
    from driver.cli.top_report import NodeLoad

__all__ = ["command"]

_AT_ONCE: Final = 32
_TIMEOUT_S: Final = 15.0
_INSTEAD: Final = "use what needs no cluster: `rootport status` and `explain` read dumps, `topo` shows a machine"
SORTS: Final = ("name", "utilization", "memory", "allocated", "temperature", "power")


@click.command("top", epilog="""\b
Examples:
  rootport top                           # every GPU of the cluster
  rootport top gpu-node-7                # of one node
  rootport top --sort utilization        # the busiest first
  rootport top -o json | jq '.nodes[].devices[] | select(.utilization == 0)'
  kubectl rootport top                   # the same, as kubectl plugin

UTIL: for how much of the last moments something ran on the GPU. MEMORY: used, and
in all. GIVEN: what claims have of core and memory. A dash: the driver does not
tell. A name with ! is that of an unhealthy GPU.

It asks each node's plugin through the API server, and needs the right to list
pods and get pods/proxy in namespace rootport-system.

Exit codes: 0 told; 1 some nodes did not answer; 2 no answer: bad input, or the
cluster cannot be asked.
""")  # fmt: skip
@click.argument("node", required=False)
@connect_option
@click.option(
    "--sort", type=click.Choice(SORTS), default="name", show_default=True, help="By name, or the largest first."
)
@output_option("text", "json")
def command(node: str | None, connect: Connect, sort: str, output: str) -> int:
    """Show what the GPUs of the cluster, or of one NODE, do now: load, memory, temperature, power, holders."""
    from driver.cli.top_report import print_loads  # noqa: PLC0415 - rich takes its time to load

    try:
        if node is not None:
            check_node_name(node)
        loads = _loads(connect, node)
    except RootportError as error:
        print_error(error)
        return NO_ANSWER
    if output == "json":
        click.echo(to_json({"nodes": [load.to_wire() for load in loads]}), nl=False)
    else:
        print_loads(loads, sort=sort, one_node=node is not None)
    silent = [load for load in loads if load.error]
    for load in silent:
        click.echo(f"rootport: node {load.node} does not answer: {load.error}", err=True)
    return 1 if silent else 0


def _loads(connect: Connect, node: str | None) -> list[NodeLoad]:
    from driver.adapters.kubernetes.status_objects import NAMESPACE, plugin_pods  # noqa: PLC0415 - takes half a second
    from driver.status.cluster import name_order  # noqa: PLC0415 - as above

    with connect(timeout_s=_TIMEOUT_S, instead=_INSTEAD).api as api:
        pods = plugin_pods(api, node)
        if not pods:
            where = f"on node {node}" if node is not None else "in this cluster"
            raise InputError(
                f"no pod of Rootport's plugin is {where}, namespace {NAMESPACE}: top asks each node's plugin by way of "
                "its pod",
                hint=f"`kubectl -n {NAMESPACE} get pods -o wide` shows which nodes have one; install the DaemonSet "
                "(docs/operator/install.md), or, where the plugin runs without a pod as on `make cluster`, read its "
                "page /metrics",
            )
        with progress("asking nodes", len(pods)) as step, ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            asked = [pool.submit(_load, api, pod) for pod in pods.values()]
            try:
                for _ in as_completed(asked):
                    step()
                return sorted((each.result() for each in asked), key=lambda load: name_order(load.node))
            finally:
                for each in asked:
                    each.cancel()


def _load(api: KubernetesApi, pod: PluginPod) -> NodeLoad:
    """Ask one node. That it does not answer is a part of the result; that asking is forbidden is an error."""
    from driver.adapters.http.metrics_reader import read_samples  # noqa: PLC0415 - as above
    from driver.adapters.kubernetes.errors import ForbiddenError  # noqa: PLC0415 - as above
    from driver.adapters.kubernetes.status_objects import NAMESPACE, plugin_metrics  # noqa: PLC0415 - as above
    from driver.cli.top_report import NodeLoad  # noqa: PLC0415 - as above
    from driver.status.load import SAMPLES, device_loads  # noqa: PLC0415 - as above

    try:
        return NodeLoad(node=pod.node, devices=device_loads(read_samples(plugin_metrics(api, pod), SAMPLES)))
    except ForbiddenError as error:
        raise ForbiddenError(
            error.message, hint=f"ask for the right to get pods/proxy in namespace {NAMESPACE}", status=error.status
        ) from error
    except RootportError as error:
        return NodeLoad(node=pod.node, error=error.message)
