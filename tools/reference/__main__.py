"""Writes the pages of docs/reference, each from the one source of what it says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click
import yaml

from controller.main import command as controller
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_map import ResourceMap
from driver.cli.main import cli
from driver.config.kinds import KINDS
from kubeletplugin.main import command as plugin
from tools.reference.commands import command_page, group_pages
from tools.reference.objects import kind_page
from tools.reference.settings import dataclass_sections, model_sections
from tools.reference.tables import rendered

REPO: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = REPO / "docs" / "reference"
_MADE: Final = "<!-- Made by tools/reference: change what that reads, and run python -m tools.reference again. -->\n"

_CLI: Final = """# The command line

`rootport`, as `rootport --help` tells it; as a kubectl plugin it is `kubectl rootport`. Each command ends with an exit
code that scripts may rely on. All of them: 0 done; 2 bad input, or an option that is wrong; 130 interrupted by Ctrl-C.
"""
_PROGRAMS: Final = """# The controller's and the plugin's options

The manifests set these options; [Install](../operator/install.md) has how to change them. A mistake in an option ends
the program with one line that names it.
"""
_OBJECTS: Final = """# Objects in the API server

Rootport's own kinds, as `kubectl explain` tells them. Rootport writes them, and nobody else needs to; what they are for
is on the pages [Device objects](../operator/devices.md) and [The kubelet plugin](../operator/kubelet-plugin.md).
"""
_SETTINGS: Final = """# Parameters and policies

The kinds of `rootport.dev/v1alpha1` that people write. Each has `apiVersion: rootport.dev/v1alpha1` and its
`kind`. Unknown fields are refused, and so are values of another type.
"""
_PARAMETERS: Final = """## Parameters of claims and DeviceClasses

Opaque parameters: `spec.devices.config[].opaque.parameters` of a claim, `spec.config[].opaque.parameters` of a
DeviceClass, with `driver: rootport.dev`. [GPU sharing](../user/gpu-sharing.md) and
[RDMA NICs in pods](../user/rdma.md) show them in use.
"""
_FILES: Final = """## Files of the administrator

Each file is one object of one kind, given to the programs by the option of its name, such as `--gpu-policies`.
[GpuPolicies](../operator/gpu-policies.md), [NicPolicies](../operator/nic-policies.md),
[DevicePolicies](../operator/device-policies.md) and [the resource map](../operator/resource-map.md) show them in use.
"""


def _objects() -> str:
    files = sorted((REPO / "resourceclasses" / "crd").glob("*.yaml"))
    return "\n".join((_OBJECTS, *(kind_page(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in files)))


def _settings() -> str:
    parameters = [section for kind in KINDS.values() for section in dataclass_sections(kind)]
    models = (GpuPolicies, NicPolicies, DevicePolicies, ResourceMap)
    files = [section for model in models for section in model_sections(model)]
    unique = {section.title: section for section in files}
    return "\n".join((_SETTINGS, _PARAMETERS, rendered(parameters), _FILES, rendered(unique.values())))


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "command-line.md": lambda: f"{_CLI}\n{group_pages(cli, 'rootport')}",
    "programs.md": lambda: "\n".join(
        (
            _PROGRAMS,
            command_page(controller, "rootport-controller", level=2),
            command_page(plugin, "rootport-kubelet-plugin", level=2),
        )
    ),
    "objects.md": _objects,
    "settings.md": _settings,
}


def page(name: str) -> str:
    """Return a page's text."""
    return f"{_MADE}\n{PAGES[name]().rstrip()}\n"


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a page is not up to date.")
def main(*, check: bool) -> None:
    """Write docs/reference."""
    stale = {path: text for name in PAGES if _differs(path := FOLDER / name, text := page(name))}
    if check and stale:
        sys.exit(f"not up to date: {', '.join(path.name for path in stale)}: run python -m tools.reference")
    FOLDER.mkdir(exist_ok=True)
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(REPO)}")


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


if __name__ == "__main__":
    main()
