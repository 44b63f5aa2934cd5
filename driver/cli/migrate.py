"""``rootport migrate``: shows how far a node is on its way from device plugins to Rootport, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from driver.cli.cluster_options import Connect, check_node_name, connect_option
from driver.cli.options import output_option
from driver.cli.output import NO_ANSWER, print_error, to_json
from driver.cli.progress import progress
from driver.errors import RootportError

if TYPE_CHECKING:
    from driver.migration.steps import Migration

__all__ = ["command"]

_NOT_DONE: Final = 1
_NOT_KNOWN: Final = 3


@click.command("migrate", epilog="""\b
Examples:
  rootport migrate gpu-node-7                # its steps, and the next command
  rootport migrate gpu-node-7 --back         # the way back to device plugins
  rootport migrate gpu-node-7 -o json | jq -r .next.command
  until rootport migrate gpu-node-7; do sleep 10; done    # while you act

\b
The steps, and why in this order:
  cordon        no new pod takes a device while the node changes hands
  drain         pods hold devices until they end, whoever gave them
  plugin-off    one system at a time: two would give one device out twice
  rootport-on   its DaemonSet brings the plugin to the node
  published     the devices are in ResourceSlices, and no taint
                rootport.dev/rival-plugin says that somebody else is there
  uncordon      pods with claims come
Back: cordon, drain, rootport-off, withdrawn, plugin-on, offered, uncordon.

It changes nothing: it reads, and prints the kubectl command for you to run.
It needs to read the Node, its NodeInventory and ResourceSlices, and to list
pods, ResourceClaims and DaemonSets of all namespaces; without a right, what
depends on it is "not known".

Exit codes: 0 all steps are done; 1 a step is to be done or waited for; 2 no
answer: bad input, or the cluster cannot be asked; 3 the next step is not
known.
""")  # fmt: skip
@click.argument("node")
@connect_option
@click.option("--back", "is_back", is_flag=True, help="From Rootport back to device plugins.")
@output_option("text", "json")
def command(
    node: str,
    connect: Connect,
    is_back: bool,  # noqa: FBT001 - click passes flags so
    output: str,
) -> int:
    """Show the steps of moving NODE from device plugins to Rootport: what is done, and what comes next."""
    try:
        check_node_name(node)
        found = _migration(node, connect, is_back=is_back)
        if output == "json":
            from driver.migration.wire import migration_to_wire  # noqa: PLC0415 - as below

            click.echo(to_json(migration_to_wire(found)), nl=False)
        else:
            from driver.cli.migrate_report import print_migration  # noqa: PLC0415 - not for --help

            print_migration(found)
        return _exit_code(found)
    except RootportError as error:
        print_error(error)
        return NO_ANSWER


def _migration(node: str, connect: Connect, *, is_back: bool) -> Migration:
    # Imported here, so that --help and a wrong flag cost no half second.
    from driver.adapters.kubernetes.migration_objects import read_migration  # noqa: PLC0415 - as said above
    from driver.migration.facts import node_facts  # noqa: PLC0415 - as said above
    from driver.migration.steps import migration  # noqa: PLC0415 - as said above

    with connect(instead="").api as api, progress("reading objects") as step:
        return migration(node_facts(read_migration(api, node, seen=step)), is_back=is_back)


def _exit_code(found: Migration) -> int:
    from driver.migration.steps import StepState  # noqa: PLC0415 - as above

    if found.next is None:
        return 0
    return _NOT_KNOWN if found.next.state is StepState.NOT_KNOWN else _NOT_DONE
