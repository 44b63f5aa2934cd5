"""Makes a release: ``python -m tools.release --out dist``. docs/dev/releasing.md is the manual."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from tools.release import parts
from tools.release.checks import objections, read_clone
from tools.release.image import find_builder
from tools.release.provenance import MAINTAINERS_MACHINE
from tools.release.versions import current_version

REPO: Final = Path(__file__).resolve().parents[2]


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), help="An empty folder, or none yet.")
@click.option(
    "--dry-run", is_flag=True, help="Make everything, also of a commit that cannot be released; sign nothing."
)
@click.option(
    "--repo", type=click.Path(path_type=Path, exists=True), default=REPO, help="The clone.", show_default=False
)
@click.option("--gpg-key", metavar="ID", help="Sign the checksums with this key.")
@click.option(
    "--image-archive",
    type=click.Path(path_type=Path, exists=True),
    help="An image that was built elsewhere; the provenance does not speak for it.",
)
@click.option("--download-url", metavar="URL", help="Where the files will be; krew's manifest names it.")
@click.option("--homepage", metavar="URL", help="The project's; krew's manifest names it.")
@click.option("--builder", metavar="URI", default=MAINTAINERS_MACHINE, help="Who or what builds, for the provenance.")
def main(
    *,
    out: Path,
    dry_run: bool,
    repo: Path,
    gpg_key: str | None,
    image_archive: Path | None,
    download_url: str | None,
    homepage: str | None,
    builder: str,
) -> None:
    """Make the files of a release from the commit that is checked out.

    Nothing is uploaded, and no tag is set. What cannot be made on this machine is left out, and said.

    Exit codes: 0 made; 1 the commit cannot be released, it cannot be signed as asked, or a step failed.
    """
    clone = read_clone(repo)
    wrong = objections(clone)
    if gpg_key and shutil.which("gpg") is None:
        # Left out, it would be uploaded unsigned by a script that looks at the exit status alone.
        wrong.append("--gpg-key asks for a signature, and gpg is not on this machine")
    for sentence in wrong:
        click.echo(f"{'would be refused' if dry_run else 'refused'}: {sentence}", err=True)
    if wrong and not dry_run:
        sys.exit(1)
    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"{out} has files in it: a release is made into an empty folder")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as text:
            parts.export(repo, Path(text))
            release = parts.Release(current_version(clone.tree), Path(text), out.resolve(), clone.seconds)
            left_out = _make(release, image_archive=image_archive, urls=(download_url, homepage))
            parts.make_provenance(release, clone.commit, builder, image_is_ours=image_archive is None)
            parts.make_checksums(release)
        left_out += _sign(out, None if dry_run else gpg_key)
    except subprocess.CalledProcessError as error:
        said = f"{error.stdout or ''}{error.stderr or ''}"[-4000:]
        click.echo(f"{' '.join(map(str, error.cmd))}: exit status {error.returncode}\n{said}", err=True)
        sys.exit(1)
    for path in sorted(out.iterdir()):
        click.echo(path.name)
    for sentence in left_out:
        click.echo(f"left out: {sentence}", err=True)


def _make(release: parts.Release, *, image_archive: Path | None, urls: tuple[str | None, str | None]) -> list[str]:
    """Make all parts; return what was left out, and why."""
    left_out = []
    wheel, _ = parts.make_python_packages(release)
    parts.make_sbom(release)
    builder = None if image_archive else find_builder()
    image = None
    if image_archive:
        image = parts.take_image(release, image_archive)
    elif builder:
        click.echo(f"building the image with {builder.name}", err=True)
        image = parts.make_image(release, builder)
    if image:
        parts.make_image_sbom(release, image)
    else:
        left_out.append("the image and its SBOM: neither docker buildx, buildah nor podman works on this machine")
    if not (release.source / "resourceclasses" / "Chart.yaml").exists():
        left_out.append("the chart: the commit has none")
    elif shutil.which("helm"):
        parts.make_chart(release)
    else:
        left_out.append("the chart: helm is not on this machine")
    plugin = parts.make_plugin(release, wheel)
    url, homepage = urls
    if url and homepage:
        parts.make_plugin_manifest(release, plugin, url, homepage)
    else:
        left_out.append("krew's manifest: it needs --download-url and --homepage")
    return left_out


def _sign(out: Path, key: str | None) -> list[str]:
    if key is None:
        return ["signatures: no key was given (--gpg-key), or this is a dry run"]
    parts.sign(out / "SHA256SUMS", key)
    return []


if __name__ == "__main__":
    main()
