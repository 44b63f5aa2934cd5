"""``rootport convert``: writes manifests of other systems with claims, or assesses how many of them convert."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click

from driver.adapters.files.document import Document, Problem, ProblemKind
from driver.adapters.files.input_file import path_name
from driver.adapters.manifests.claims import Manifests, read_all_manifests
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.validation.names import label
from driver.cli.convert_manifests import manifest_texts, named_twice
from driver.cli.convert_notes import WithoutEffect
from driver.cli.convert_report import assessment_to_wire, print_assessment, print_conversions
from driver.cli.device_sizes import sizes_of_cluster, sizes_of_machines
from driver.cli.left_out import passed_over
from driver.cli.machines import Machines, machine_options
from driver.cli.options import FILE, policies_options, read_resources, resources_option
from driver.cli.output import NO_ANSWER, print_error, print_note, to_json, to_yaml
from driver.cli.progress import progress
from driver.convert import Conversion, Outcome, Settings, convert
from driver.convert.assessment import Assessment
from driver.errors import InputError, RootportError

__all__ = ["command"]

_NO_DOCUMENT: Final = frozenset({ProblemKind.UNREADABLE, ProblemKind.NOT_AN_OBJECT})
"""Problems of what cannot be passed on; a claim with a wrong field is its writer's affair."""
_CLASSES_NOT_KNOWN: Final = (
    "it is not known which extended resources DeviceClasses serve already: these credentials may not list deviceclasses"
)
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml")
_STEP: Final = r"[A-Za-z_][A-Za-z0-9_]*(?:\[\*\])?"
_POD_PATH: Final = re.compile(rf"(?P<kind>[A-Za-z][A-Za-z0-9]*)=(?P<path>{_STEP}(?:\.{_STEP})*)", re.ASCII)
_LONGEST_PATH: Final = 500


Convert: TypeAlias = Callable[[Mapping[str, Any]], Conversion]


class _Report(NamedTuple):
    """An assessment, with what could not be read for it, and notes."""

    assessment: Assessment
    unread: tuple[Problem, ...]
    notes: tuple[str, ...]


@click.command("convert", epilog="""\b
Examples:
  rootport convert deploy.yaml >converted.yaml      # and read what is on stderr
  rootport convert all.yaml | kubectl apply -f -
  kustomize build | rootport convert - | kubectl apply -f -
  rootport convert --check deploy                   # how much of a folder converts
  rootport convert --check                          # of the current cluster
  rootport convert --check -n ml -o json | jq .summary
  rootport convert --resources nics.yaml pod.yaml   # which resources are RDMA NICs
  rootport convert --path Fleet=spec.workers[*].pod fleet.yaml
  rootport convert --context prod claims.yaml       # percentages, for its GPUs

What the manifests ask of Koordinator, TKE qGPU, HAMi, device plugins and others
becomes claims for Rootport: docs/user/migrate/fields.md lists each field. Every
other document is printed as it stands. What changes loses its comments.

With a cluster (--kubeconfig, --context) or machines (--topology, --sysfs, --live),
claims for a percentage of memory or of bandwidth become prioritized lists over
the sizes of the devices there.

Exit codes: 0 all that asks for devices converts; 1 some of it does not, and is
printed as it stands, or (--check) a file cannot be read; 2 bad input, and no
manifest is printed, or the cluster cannot be asked.
""")  # fmt: skip
@click.argument("files", metavar="[FILE]...", type=FILE, nargs=-1)
@click.option("--check", is_flag=True, help="Say what converts and why the rest does not; print no manifest.")
@resources_option
@click.option(
    "--path", "pod_paths", metavar="KIND=PATH", multiple=True,
    help="Where objects of a kind have pod templates, if not found by their form. Repeatable.",
)  # fmt: skip
@click.option("--from", "dump", type=FILE, help="With --check: kubectl get -o yaml or json, instead of a cluster.")
@click.option(
    "--kubeconfig", type=FILE,
    help="The cluster: with --check and no FILE, of the workloads; with FILE, of the devices. [default: as kubectl's]",
)  # fmt: skip
@click.option("--context", help="Of the kubeconfig. [default: the current one]")
@machine_options(positional=False)
@policies_options
@click.option("-n", "--namespace", help="With --check, of a cluster: this namespace alone.")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "yaml")), help="Format of what --check prints. [default: text]"
)
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    files: tuple[Path, ...],
    check: bool,  # noqa: FBT001 - click passes flags so
    resources: Path | None,
    pod_paths: tuple[str, ...],
    dump: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    output: str | None,
    machines: Machines,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    device_policies: DevicePolicies,
) -> int:
    """Print manifests of other systems with claims for Rootport, ready for kubectl apply.

    FILE is a file of manifests, a folder (with those below it), or - for standard input. Each ResourceClaimTemplate is
    printed before the first object that names it. Standard error says what became of each field, and what has no equal.

    With --check, nothing is converted: what is printed is how many workloads convert, and why the others do not.
    Without FILE that is of the workloads in a cluster, which are read and not changed.
    """
    try:
        names_cluster = kubeconfig is not None or context is not None
        if not check and (namespace is not None or dump is not None or output is not None):
            raise InputError("--from, -n and -o are for --check", hint="add --check")
        if sum((bool(files), dump is not None, namespace is not None or (names_cluster and not files))) > 1:
            raise InputError("files, --from, or a cluster: which of them?", hint="name one")
        if machines and names_cluster:
            raise InputError("a machine, or a cluster: which one has the devices?", hint="name one of them")
        if not check and not files:
            raise click.UsageError(
                "name files or folders, or - for standard input; --check without a name takes the current cluster"
            )
        settings = _settings(resources, pod_paths)
        if machines:
            sizes = sizes_of_machines(machines.read(), policies, nic_policies, device_policies)
            settings = replace(settings, sizes=sizes)
        elif names_cluster and files:
            with progress("reading the sizes of devices"):
                settings = replace(settings, sizes=sizes_of_cluster(kubeconfig, context))
        to_claims = partial(convert, settings=settings)
        if not check:
            return _convert(files, to_claims, settings)
        report = (
            _of_files(files, to_claims, settings) if files else _of_dump(dump, to_claims, settings) if dump else None
        )
        if report is None:
            report = _of_cluster(kubeconfig, context, namespace, to_claims, settings)
    except RootportError as error:
        # 1 is an answer here: something does not convert.
        print_error(error)
        return NO_ANSWER
    return _show(report, output or "text")


def _settings(resources: Path | None, pod_paths: Sequence[str]) -> Settings:
    paths: dict[str, tuple[str, ...]] = {}
    for text in pod_paths:
        found = _POD_PATH.fullmatch(text) if len(text) <= _LONGEST_PATH else None
        if found is None:
            raise InputError(
                f"--path {text[:_LONGEST_PATH]}: expected KIND=PATH",
                hint="such as Fleet=spec.workers[*].podTemplate: fields, with [*] after the name of a list",
            )
        paths[found["kind"]] = (*paths.get(found["kind"], ()), found["path"])
    return replace(read_resources(resources), pod_paths=paths)


def _convert(files: Sequence[Path], to_claims: Convert, settings: Settings) -> int:
    with progress("reading files"):
        given = _read(files)
        errors = [str(problem) for problem in given.problems if problem.kind in _NO_DOCUMENT]
        if errors:
            raise InputError.of_all(errors)
        _refuse_kustomizations(given)
    with progress("converting", len(given.documents)) as step:
        found: list[tuple[Document, Conversion]] = []
        for document in given.documents:
            found.append((document, to_claims(document.data)))
            step()
    # Bytes: the user's text is UTF-8, whatever the terminal's encoding is.
    click.echo("".join(manifest_texts(given, found)).encode(), nl=False)
    for note in _notes(given, settings):
        print_note(note)
    print_conversions(found)
    return 1 if any(conversion.outcome is Outcome.REFUSED for _, conversion in found) else 0


def _read(files: Sequence[Path]) -> Manifests:
    given = read_all_manifests(files)
    if not given.documents and not given.problems:
        without = "; ".join(passed_over(given, "convert")) or "no object of Kubernetes"
        raise InputError(f"there is nothing to convert: {without}", hint="name the files or folders with manifests")
    return given


def _notes(given: Manifests, settings: Settings) -> Iterator[str]:
    """Return notes on what of the files, and of the options, had no effect."""
    yield from passed_over(given, "convert")
    yield from named_twice(given.documents)
    unused = WithoutEffect(settings)
    for document in given.documents:
        unused.add(document.data)
    yield from unused.notes()


def _refuse_kustomizations(given: Manifests) -> None:
    """Refuse folders whose manifests only kustomize completes: what is printed is to be applied."""
    for source, path in given.paths.items():
        if path.name in _KUSTOMIZATIONS:
            folder = shlex.quote(str(path.parent))
            raise InputError(
                f"{source}: kustomize makes the manifests of this folder",
                hint=f"`kustomize build {folder} | rootport convert -`",
            )


def _of_files(files: Sequence[Path], to_claims: Convert, settings: Settings) -> _Report:
    with progress("reading files"):
        given = _read(files)
    assessment = Assessment()
    with progress("assessing", len(given.documents)) as step:
        for document in given.documents:
            assessment.add(document.data, to_claims, document.where)
            step()
    unread = tuple(problem for problem in given.problems if problem.kind in _NO_DOCUMENT)
    return _Report(assessment, unread, tuple(_notes(given, settings)))


def _of_dump(dump: Path, to_claims: Convert, settings: Settings) -> _Report:
    # Not for other ways: it is the reader of dumps, and the other one the client of the API server.
    from driver.adapters.manifests.dumps import each_dumped_object  # noqa: PLC0415 - as said above

    assessment, unused = Assessment(), WithoutEffect(settings)
    notes: list[str] = []
    with progress(f"reading {path_name(dump)}") as step:
        for data in each_dumped_object(dump, notes):
            assessment.add(data, to_claims)
            unused.add(data)
            step()
    return _Report(assessment, (), (*notes, *unused.notes()))


def _of_cluster(
    kubeconfig: Path | None, context: str | None, namespace: str | None, to_claims: Convert, settings: Settings
) -> _Report:
    from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - it takes half a second
    from driver.adapters.kubernetes.workloads import each_workload, served_resources  # noqa: PLC0415 - as said above

    if namespace is not None:
        for error in label("the namespace", namespace):
            raise InputError(f"no namespace has such a name: {error.message}")
    instead = "name files, or a dump with --from"
    with cluster_context(kubeconfig=kubeconfig, context=context, instead=instead).api as api:
        served = served_resources(api)
        assessment, unused = Assessment(served=served or frozenset()), WithoutEffect(settings)
        with progress("reading workloads") as step:

            def take(data: dict[str, Any]) -> None:
                assessment.add(data, to_claims)
                unused.add(data)
                step()

            each_workload(api, namespace, take)
        not_known = () if served is not None else (_CLASSES_NOT_KNOWN,)
        return _Report(assessment, (), (*not_known, *unused.notes(), *api.skipped.notes()))


def _show(report: _Report, output: str) -> int:
    if output == "text":
        print_assessment(report.assessment, report.unread)
    else:
        data = assessment_to_wire(report.assessment, report.unread)
        click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
    for note in report.notes:
        print_note(note)
    refused = any(item.outcome is Outcome.REFUSED for item in report.assessment.assessed)
    return 1 if refused or report.unread else 0
