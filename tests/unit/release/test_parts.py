"""What a release says of itself: its provenance, its checksums, and whether they can be signed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.paths import REPO
from tools.release.__main__ import main
from tools.release.parts import Release, make_checksums, make_provenance, take_image

IMAGE = "rootport-9.0.0-image.tar"


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """One with a wheel and an image that was built elsewhere."""
    made = Release("9.0.0", REPO, tmp_path / "dist", 1_800_000_000)
    made.out.mkdir()
    (made.out / "rootport-9.0.0-py3-none-any.whl").write_text("wheel")
    (tmp_path / "elsewhere.tar").write_text("image")
    take_image(made, tmp_path / "elsewhere.tar")
    return made


@pytest.mark.parametrize("ours", [True, False], ids=["built", "taken"])
def test_the_provenance_speaks_for_an_image_only_if_it_was_built_here(release: Release, ours: bool) -> None:
    told = json.loads(make_provenance(release, 40 * "a", "https://example.com/b", image_is_ours=ours).read_text())
    wheel = "rootport-9.0.0-py3-none-any.whl"
    assert [subject["name"] for subject in told["subject"]] == ([IMAGE, wheel] if ours else [wheel])


def test_the_checksums_have_an_image_from_elsewhere(release: Release) -> None:
    make_provenance(release, 40 * "a", "https://example.com/b", image_is_ours=False)
    names = [line.split()[-1] for line in make_checksums(release).read_text().splitlines()]
    assert names == ["provenance.intoto.json", IMAGE, "rootport-9.0.0-py3-none-any.whl"]


@pytest.mark.parametrize("gpg", [True, False], ids=["gpg", "no-gpg"])
def test_a_signature_that_cannot_be_made_is_refused_and_not_left_out(
    gpg: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    if gpg:
        (programs / "gpg").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    # The objections to the commit itself are another test's.
    monkeypatch.setattr("tools.release.__main__.objections", lambda _: [] if not gpg else ["as expected"])
    ran = CliRunner().invoke(main, ["--out", str(tmp_path / "dist"), "--gpg-key", "me"])
    said = "as expected" if gpg else "--gpg-key asks for a signature, and gpg is not on this machine"
    assert (ran.exit_code, ran.stderr) == (1, f"refused: {said}\n")
    assert not (tmp_path / "dist").exists()
