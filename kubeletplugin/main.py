"""The entry point of ``rootport-kubelet-plugin``: flags in, a running plugin out, each expected error on one line.

What the process is made of is imported only when it is to run, so that ``--help`` and a wrong flag answer at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from driver import __version__
from driver.adapters import logs
from driver.adapters.command_line import run_command
from driver.adapters.http.clients import READERS
from kubeletplugin.options import BEFORE_BINDING_TYPES, Options

__all__ = ["command", "main"]

_NAME: Final = "rootport-kubelet-plugin"
_DEFAULTS: Final = Options(node="-")
_PATH: Final = click.Path(path_type=Path)
# Not the command's docstring: with python -OO, which saves the process 3 MB, there are none.
_HELP: Final = """Rootport's kubelet plugin: the part of the driver that runs on every node.

It finds the node's GPUs, RDMA NICs and FPGAs and publishes them as the node's NodeInventory, registers with the
kubelet, and prepares claims: it writes the CDI specs by which the container runtime gives devices to containers.
The API server may be away: what is prepared can always be unprepared.
"""


@click.command(help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}, epilog="""\b
Signals:
  SIGTERM, SIGINT   end: out of the kubelet's registry first, then running calls are finished (within 10 s).
                    Prepared claims stay prepared, and their containers go on
  SIGHUP            discover the hardware now
\b
Where to look when a pod does not start:
  kubectl get nodeinventories            what each node has, and whether its plugin is ready
  kubectl describe nodeinventory NODE    the conditions say what is wrong and what to do
\b
Exit codes: 0 ended by a signal; 1 the node is in the way; 2 a wrong flag or kubeconfig.
""")  # fmt: skip
@click.option("--node-name", "node", envvar="NODE_NAME", show_envvar=True, required=True, help="This node's name.")
@click.option(
    "--instance",
    envvar="POD_UID",
    show_envvar=True,
    default=_DEFAULTS.instance,
    help="Distinguishes this process from another one on the same node (rolling update); in a pod: its UID.",
)
@click.option(
    "--host-root",
    type=_PATH,
    default=_DEFAULTS.host_root,
    help="The folder where the host's sys, proc, dev and driver files are seen.",
)
@click.option(
    "--device-root",
    default=_DEFAULTS.device_root,
    show_default="none",
    help="The host's folder before /dev and the driver's files, where these are not in the host's own / "
    "(a driver in a container: /run/nvidia/driver).",
)
@click.option(
    "--hami-core",
    type=_PATH,
    default=_DEFAULTS.hami_core,
    help="HAMi-core's library on the host, for claims with sharing strategy hamiCore; need not be there.",
)
@click.option(
    "--plugin-dir",
    type=_PATH,
    default=_DEFAULTS.plugin_dir,
    help="Socket and checkpoint. Must have this path for the kubelet as well.",
)
@click.option("--registry-dir", type=_PATH, default=_DEFAULTS.registry_dir, help="Where the kubelet finds plugins.")
@click.option(
    "--pod-resources-socket",
    type=_PATH,
    default=_DEFAULTS.pod_resources_socket,
    help="The kubelet's PodResources socket, for the containers of each claim in /metrics; need not be there.",
)
@click.option("--cdi-dir", type=_PATH, default=_DEFAULTS.cdi_dir, help="Where the container runtime reads CDI specs.")
@click.option(
    "--cni-conf-dir",
    type=_PATH,
    default=None,
    show_default="Rootport's CNI plugin is not used",
    help="Where the container runtime reads its network configuration (/etc/cni/net.d): Rootport's CNI plugin is added "
    "to it, for claims that have a network interface moved into their pod.",
)
@click.option(
    "--cni-conf-file",
    metavar="NAME",
    default=None,
    show_default="the first, which the runtime takes",
    help="Which .conflist file there; with Multus, whose own comes first, that of the cluster's network.",
)
@click.option(
    "--cni-bin-dir",
    type=_PATH,
    default=None,
    show_default="none; it goes with --cni-conf-dir",
    help="Where the runtime finds CNI plugins (/opt/cni/bin).",
)
@click.option(
    "--cni-program",
    type=_PATH,
    default=_DEFAULTS.cni_program,
    show_default="libexec/rootport-cni of its Python environment",
    help="Rootport's CNI plugin, which is copied to --cni-bin-dir.",
)
@click.option(
    "--gpu-policies",
    type=_PATH,
    default=None,
    show_default="GPUs are shared as claims ask",
    help="The administrator's GpuPolicies, of which the plugin holds claims to strategies and timeSlicingIntervals.",
)
@click.option(
    "--device-policies",
    type=_PATH,
    default=None,
    show_default="the interface with the default route stays",
    help="The administrator's DevicePolicies, of which the plugin reads defaultRoute.",
)
@click.option("--namespace", default=_DEFAULTS.namespace, help="Rootport's namespace; the node's Lease is there.")
@click.option(
    "--kubeconfig",
    type=_PATH,
    default=None,
    show_default="the pod's service account",
    help="How to reach the API server.",
)
@click.option(
    "--heartbeat-interval",
    "heartbeat_interval_s",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.heartbeat_interval_s,
    help="Between two renewals of the node's Lease.",
)
@click.option(
    "--discovery-interval",
    "discovery_interval_s",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.discovery_interval_s,
    help="Between two discoveries of the hardware.",
)
@click.option(
    "--health-interval",
    "health_interval_s",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.health_interval_s,
    help="Between two readings of the devices' health; 0: it is not watched, and NVIDIA's driver is not kept open.",
)
@click.option(
    "--health-hold",
    "health_hold_s",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.health_hold_s,
    help="How long a fault must have stayed away before it is over; longer for one that comes back.",
)
@click.option("--log-level", type=click.Choice(logs.LEVELS), default=_DEFAULTS.log_level, help="On stderr, key=value.")
@click.option(
    "--health-port",
    type=int,
    default=_DEFAULTS.health_port,
    help="HTTP port for /healthz, /readyz and /metrics; 0: none.",
)
@click.option(
    "--metrics-readers",
    type=click.Choice(READERS),
    default=_DEFAULTS.metrics_readers,
    help="Who is given /metrics there, which is plain HTTP and names the pods that have devices: everyone who reaches "
    "the port; localhost, so the pod itself (a proxy beside the plugin) and kubectl port-forward; or nobody.",
)
@click.option(
    "--rival-hold",
    "rival_hold_s",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.rival_hold_s,
    help="How long devices keep the taint of a device plugin or DRA driver that was last seen then: it may come back, "
    "and the kubelet waits as long.",
)
@click.option(
    "--tolerate-rivals",
    "tolerated_rivals",
    metavar="NAME,...",
    default="",
    show_default="none",
    help="Extended resources (openshift.io/storage_vfs; openshift.io/* for a whole domain) and DRA drivers that are no "
    "rivals: what they give out is none of the devices that Rootport publishes. Devices of others get a taint.",
)
@click.option(
    "--prepare-before-binding",
    type=click.Choice(BEFORE_BINDING_TYPES),
    multiple=True,
    show_default="none",
    help="Prepare claims for devices of this type before their pods are bound to the node (KEP-5007): kube-scheduler "
    "waits for that, and chooses other devices where it fails. A pod that waits is bound about five seconds later. May "
    "be given several times.",
)
@click.version_option(__version__, prog_name=_NAME)
def command(tolerated_rivals: str, prepare_before_binding: tuple[str, ...], **flags: Any) -> int:
    """Check the options and run the plugin; return the exit code."""
    names = tuple(name.strip() for name in tolerated_rivals.split(",") if name.strip())
    types = tuple(sorted(set(prepare_before_binding)))
    options = Options(tolerated_rivals=names, prepare_before_binding=types, **flags)
    options.check()
    logs.configure(options.log_level)
    run = import_module("kubeletplugin.process").run
    code: int = run(options)
    return code


def main() -> None:
    """Run the plugin; the exit codes stand in ``--help``."""
    sys.exit(run_command(command, name=_NAME, show_usage_error=_show_usage_error))


def _show_usage_error(error: click.ClickException) -> None:
    # click's own form has three lines, two of which repeat what --help says.
    click.echo(f"{_NAME}: {error.format_message()} (see --help)", err=True)


if __name__ == "__main__":
    main()
