"""``rootport-controller``: publishes ResourceSlices and Device objects from the nodes' inventories."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from controller.compatibility.command_line import compatibility, compatibility_options
from controller.conversion.command_line import conversion_options, conversion_webhooks, template_collector
from controller.conversion.counts import ConversionCounter
from controller.leader.election import LeaderElector
from controller.lifecycle import LEASE_TIMEOUT_S, no_data, own_label, run
from controller.metrics import ControllerCounts, ControllerMetrics
from controller.overview.store import Overview
from controller.placement.command_line import placement_option, placement_service
from controller.publisher import Publisher, PublisherOptions
from driver import __version__
from driver.adapters.command_line import run_command
from driver.adapters.files.policies_in_force import PoliciesInForce
from driver.adapters.heap import collect_rarely, return_large_blocks
from driver.adapters.http.clients import READERS, Readers
from driver.adapters.http.metrics_page import MetricsPage
from driver.adapters.http.probe_server import Page
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.logs import LEVELS, configure
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.errors import InputError
from driver.model.managed_nodes import LEADER_ANNOTATION
from driver.modes.rule import Layout

if TYPE_CHECKING:
    from controller.admission.certificate_keeper import FailurePolicy
    from controller.compatibility.service import LabelsOption
    from controller.conversion.reviews import OnRefusal
    from driver.allocator.features import Features

__all__ = ["command", "main"]

_LOG: Final = logging.getLogger(__name__)
_DEFAULTS: Final = PublisherOptions()


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  rootport-controller                                  in a pod, by its service account
  rootport-controller --kubeconfig ~/.kube/config      on a desk
Exit codes: 0 stopped by SIGTERM or SIGINT; 1 the leader Lease was lost, or the node is in the way; 2 bad options.
""",
)
@click.version_option(__version__, prog_name="rootport-controller")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Where the API server is and who we are; without it, the pod's service account.",
)
@click.option(
    "--namespace",
    default=_DEFAULTS.namespace,
    show_default=True,
    help="Where the Leases are: the nodes' heartbeats, and the controller's own.",
)
@click.option(
    "--identity",
    default="",
    help="The name in the leader Lease; a random end is added. Without it, $POD_NAME or the host's name.",
)
@click.option(
    "--fresh-for",
    type=click.FloatRange(min=1),
    default=_DEFAULTS.fresh_for_s,
    show_default=True,
    metavar="SECONDS",
    help="How long after a heartbeat a node's slices are created and updated. Plugins beat every 10 s. kubelet deletes "
    "a node's slices 30 s after it lost the plugin: a value above that recreates them in vain.",
)
@click.option(
    "--grace-period",
    type=click.FloatRange(min=1),
    default=_DEFAULTS.grace_s,
    show_default=True,
    metavar="SECONDS",
    help="After how long without a heartbeat a node's slices are deleted, so that no pod is sent there.",
)
@click.option(
    "--resync",
    type=click.FloatRange(min=1),
    default=_DEFAULTS.resync_s,
    show_default=True,
    metavar="SECONDS",
    help="How often everything is compared although nothing changed. It writes only what differs.",
)
@click.option(
    "--gpu-policies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="GpuPolicies, in YAML: in which ways GPUs are on offer, and the sizes of shares, by model and node. Read "
    "again when it changes: a right change is published at once, a wrong one logged and kept out. What is not offered "
    "any more cannot be allocated from then on, and leaves the slices when no claim has it, after half a minute at the "
    "earliest. A file that is not there means the defaults.",
)
@click.option(
    "--nic-policies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="NicPolicies, in YAML: whether VFs are pooled or named, and how RDMA NICs are shared, by model and node. Read "
    "as --gpu-policies is.",
)
@click.option(
    "--device-policies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="DevicePolicies, in YAML: attributes of the administrator's own, devices that are kept off the offer, and "
    "NICs with the default route that may be given all the same. Read as --gpu-policies is.",
)
@click.option(
    "--gpu-layout",
    type=click.Choice(("auto", *(layout.value for layout in Layout))),
    default="auto",
    show_default=True,
    help="Which modes of GPUs are published: full, every mode of every GPU; lean, each GPU in the mode in which it is "
    "used, and a few free ones in every mode; one, each GPU in one mode at a time. A mode that pending claims need is "
    "published for them, with lean at once, with one within a minute. More devices cost kube-scheduler more time for "
    "each pod with a claim. auto is full up to 16 Nodes, and beyond that lean with Kubernetes 1.37 or newer, one "
    "before. Each NodeInventory's condition AllModesPublished says what it is, and why.",
)
@click.option(
    "--mig-gpus-ahead",
    type=click.IntRange(0, 64),
    default=_DEFAULTS.mig_gpus_ahead,
    show_default=True,
    metavar="N",
    help="With the layout lean, how many free GPUs of each node are published in every mode, MIG partitions too, "
    "before a claim asks for them. With 0, a claim for the first partition of a GPU waits some seconds.",
)
@click.option(
    "--explain/--no-explain",
    default=True,
    show_default=True,
    help="Tell why claims are pending: by an Event on the pod and annotations on the claim. It watches pods that are "
    "not placed, Nodes, DeviceClasses and all drivers' ResourceSlices. The same is needed for the modes of GPUs to "
    "follow pending claims: with --no-explain, a GPU of the layout one keeps its mode, and the layout lean has the MIG "
    "partitions of --mig-gpus-ahead alone.",
)
@click.option(
    "--explain-names",
    type=click.Choice(("namespace", "all")),
    default="namespace",
    show_default=True,
    help="Whether these Events and annotations name claims and pods of other namespaces, or only count them.",
)
@click.option(
    "--feature-gates",
    default="",
    metavar="GATE=BOOL,...",
    help="The feature gates of the cluster's API server and kube-scheduler that differ from the defaults of Kubernetes "
    "1.37, as their own option has them. With DRAListTypeAttributes=true, attributes of devices in several places are "
    "lists; with DRANodeAllocatableResources=true, GPUs bring the nodeAllocatable of their GpuPolicies. Explanations "
    "and placement reckon with these gates and the others that explain knows.",
)
@placement_option
@compatibility_options
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What to log.")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Where /healthz, /readyz and /metrics are served by plain HTTP; 0 for nowhere.",
)
@click.option(
    "--metrics-readers",
    type=click.Choice(READERS),
    default="everyone",
    show_default=True,
    help="Who is given /metrics on the health port, which tells no reader from another: everyone who reaches it; "
    "localhost, so the pod itself and kubectl port-forward; or nobody. On the HTTPS port it is given to who may get "
    "the nonResourceURL /metrics, whatever this says.",
)
@click.option(
    "--https-port",
    type=click.IntRange(0, 65535),
    default=8443,
    show_default=True,
    help="Where HTTPS is served: the HTTP API, the dashboard, explanations, /metrics, and the webhook; 0 for nowhere. "
    "Who asks shows a token, and sees what they may read with kubectl.",
)
@click.option(
    "--webhook/--no-webhook",
    default=False,
    show_default=True,
    help="Serve the admission webhook that checks claims when they are made. It needs what "
    "resourceclasses/components/webhook installs. Without it the certificate is self-signed, and new with each start.",
)
@click.option(
    "--webhook-failure-policy",
    type=click.Choice(("Ignore", "Fail")),
    default="Ignore",
    show_default=True,
    help="What the API server does with a claim for Rootport while no controller answers: Ignore takes it unchecked, "
    "Fail refuses it. Kept in the ValidatingWebhookConfiguration.",
)
@click.option(
    "--webhook-host",
    "webhook_hosts",
    multiple=True,
    metavar="NAME",
    help="A further DNS name or IP address for the certificate, where the API server or others do not reach it by the "
    "Services; may be given several times.",
)
@conversion_options
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    kubeconfig: Path | None,
    namespace: str,
    identity: str,
    fresh_for: float,
    grace_period: float,
    resync: float,
    gpu_policies: Path | None,
    nic_policies: Path | None,
    device_policies: Path | None,
    gpu_layout: str,
    mig_gpus_ahead: int,
    explain: bool,  # noqa: FBT001 - a flag
    explain_names: str,
    feature_gates: str,
    policy: str,
    pod_annotations: str,
    node_labels: LabelsOption,
    log_level: str,
    health_port: int,
    metrics_readers: Readers,
    https_port: int,
    webhook: bool,  # noqa: FBT001 - as above
    webhook_failure_policy: FailurePolicy,
    webhook_hosts: tuple[str, ...],
    convert: bool,  # noqa: FBT001 - as above
    convert_refused: OnRefusal,
    convert_failure_policy: FailurePolicy,
    convert_resources: Path | None,
) -> int:
    """Publish the cluster's GPUs, RDMA NICs and FPGAs.

    Reads the NodeInventory that each node's plugin writes, and keeps the node's ResourceSlices and Device objects as
    they should be; nothing changed means nothing written. Of several controllers one is elected leader and writes, the
    others wait. A node without heartbeats loses its slices; a Node that is deleted, everything.
    """
    configure(log_level)
    return_large_blocks()
    collect_rarely()
    if webhook and not https_port:
        raise InputError("--webhook needs --https-port", hint="8443 is where its Service leads")
    if convert and not webhook:
        raise InputError("--convert needs --webhook", hint="both are sent to one server, with one certificate")
    if convert_resources and not convert:
        raise InputError("--convert-resources needs --convert", hint="it says how pods are converted")
    if grace_period <= fresh_for:
        raise InputError("--grace-period must be longer than --fresh-for", hint="the defaults are 60 and 25 seconds")
    features: Features | None = None
    if feature_gates:
        # Imported here, because without it only explanations and placement need the allocator.
        from driver.allocator.feature_gates import features_of  # noqa: PLC0415

        features = features_of(feature_gates)
    in_force = PoliciesInForce(gpu_policies, default=DEFAULT_POLICIES, flag="--gpu-policies")
    nic_in_force = PoliciesInForce(nic_policies, default=DEFAULT_NIC_POLICIES, flag="--nic-policies")
    device_in_force = PoliciesInForce(device_policies, default=DEFAULT_DEVICE_POLICIES, flag="--device-policies")
    identity = f"{identity or os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
    _LOG.info(
        "rootport-controller starts",
        extra={
            "version": __version__,
            "identity": identity,
            "namespace": namespace,
            "fresh_for_s": fresh_for,
            "grace_period_s": grace_period,
            "resync_s": resync,
            "gpu_policies": str(gpu_policies or ""),
            "nic_policies": str(nic_policies or ""),
            "device_policies": str(device_policies or ""),
            "gpu_layout": gpu_layout,
            "mig_gpus_ahead": mig_gpus_ahead,
            "feature_gates": feature_gates,
            "placement": policy,
            "pod_annotations": pod_annotations,
            "node_labels": node_labels,
        },
    )
    options = PublisherOptions(
        namespace=namespace,
        fresh_for_s=fresh_for,
        grace_s=grace_period,
        resync_s=resync,
        gpu_layout=None if gpu_layout == "auto" else Layout(gpu_layout),
        mig_gpus_ahead=mig_gpus_ahead,
        lists=features is not None and features.list_type_attributes,
        node_allocatable=features is not None and features.node_allocatable_resources,
    )
    counts = ControllerCounts(conversions=ConversionCounter() if convert else None)
    connect = partial(KubernetesApi.connect, kubeconfig=kubeconfig, on_write=counts.writes)
    elector = LeaderElector(
        connect(timeout_s=LEASE_TIMEOUT_S),
        namespace=namespace,
        name=options.leader_lease,
        identity=identity,
        annotations={} if policy == "none" else {LEADER_ANNOTATION: f"{policy} {identity}"},
    )
    api = connect(skipped=counts.skipped)
    overview = Overview() if https_port or health_port else None  # metrics read it as well
    explanations = demand = None
    if explain:
        # Imported here, because only these need the allocator and CEL.
        from controller.demand.follower import DemandFollower  # noqa: PLC0415
        from controller.explanations.service import Explanations  # noqa: PLC0415
        from driver.explain.known.placing import Placing  # noqa: PLC0415

        explanations = Explanations(
            api,
            instance=options.leader_lease,
            all_names=explain_names == "all",
            features=features,
            placing=Placing(holder=identity, policy="" if policy == "none" else policy),
            why_not_placed=lambda pod_uid: placing.why_not(pod_uid) if placing else "",
            pending_changed=overview.claims_changed if overview else lambda: None,
            timed=partial(counts.passes.timed, "explain"),
        )
        demand = DemandFollower(explanations.handler, is_synced=explanations.is_synced)
    placing = placement_service(
        api,
        policy,
        identity=identity,
        instance=options.leader_lease,
        may_write=lambda: elector.leads and not elector.overdue,
        features=features,
    )
    publisher = Publisher(
        api,
        options,
        policies=in_force,
        nic_policies=nic_in_force,
        device_policies=device_in_force,
        explanations=explanations,
        demand=demand,
        compatibility=compatibility(api, pod_annotations, node_labels),
        overview=overview,
        collector=template_collector(api, counts.conversions),
        placement=placing,
        timed=counts.passes.timed,
    )
    metrics = ControllerMetrics(
        counts=counts,
        leads=lambda: elector.leads,
        nodes=lambda: overview.nodes() if overview else (),
        pending=lambda: explanations.pending if explanations else (),
        put_off=lambda: explanations.put_off if explanations else 0,
        placement=lambda: placing.counts if placing else None,
    )
    pages: dict[str, Page] = {"/metrics": MetricsPage(metrics.families)}
    server = None
    if https_port and overview is not None:
        # Imported here, because it costs some megabytes of memory.
        from controller.https import HttpsOptions, https_server  # noqa: PLC0415

        server = https_server(
            connect(skipped=counts.skipped),
            HttpsOptions(
                port=https_port,
                namespace=namespace,
                hosts=webhook_hosts,
                webhook_failure_policy=webhook_failure_policy if webhook else None,
            ),
            overview=overview,
            explanations=explanations,
            problem=lambda: no_data(elector, publisher),
            pages=pages,
            conversions=conversion_webhooks(
                connect,
                counts.conversions,
                resources=convert_resources,
                on_refusal=convert_refused,
                failure_policy=convert_failure_policy,
            ),
        )
    label = own_label(kubeconfig, namespace, on_write=counts.writes)
    return run(elector, publisher, server, label, health_port=health_port, pages=pages, readers=metrics_readers)


def main() -> None:
    """Run the controller. For exit codes see ``--help``."""
    sys.exit(run_command(command, name="rootport-controller"))


if __name__ == "__main__":
    main()
