"""Archives are the same in every build; the provenance is what in-toto's own library takes."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage

from tools.release.archives import Member, checksums, repack, sha256, tar_gz, tree
from tools.release.provenance import statement

FILES = {"b/program": Member(b"#!/bin/sh\n", executable=True), "a": Member(b"text")}


def test_an_archive_has_no_owner_one_time_and_an_order() -> None:
    packed = tar_gz(FILES, 1_800_000_000)
    assert packed == tar_gz(dict(reversed(FILES.items())), 1_800_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = tar.getmembers()
    assert [(entry.name, entry.mode, entry.mtime, entry.uid, entry.uname) for entry in members] == [
        ("a", 0o644, 1_800_000_000, 0, ""),
        ("b/program", 0o755, 1_800_000_000, 0, ""),
    ]


def test_what_another_program_packed_becomes_the_same(tmp_path: Path) -> None:
    packed = []
    for number in range(2):
        folder = tmp_path / str(number) / "x"
        folder.mkdir(parents=True)
        for name in ("one", "two") if number else ("two", "one"):
            (folder / name).write_text(name)
        archive = tmp_path / f"{number}.tar.gz"
        subprocess.run(["tar", "-C", folder.parent, "-czf", archive, f"--mtime=@{number}", "x"], check=True)
        packed.append(archive.read_bytes())
    assert packed[0] != packed[1]
    assert (
        repack(packed[0], 7)
        == repack(packed[1], 7)
        == tar_gz({f"x/{name}": member for name, member in tree(tmp_path / "0" / "x").items()}, 7)
    )


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    archive = tmp_path / "x.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", archive, "link"], check=True)
    with pytest.raises(ValueError, match="link is neither a file nor a folder"):
        repack(archive.read_bytes(), 7)


def test_sha256sum_checks_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    (tmp_path / "SHA256SUMS").write_text(checksums({name: sha256(tmp_path / name) for name in ("two", "one")}))
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "two").write_text("3")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def told() -> str:
    return statement(
        files={"rootport.whl": hashlib.sha256(b"wheel").hexdigest()},
        commit=40 * "a",
        version="9.0.0",
        inputs={"requirements.lock": hashlib.sha256(b"lock").hexdigest()},
        seconds=1_800_000_000,
    )


def test_the_provenance_is_a_statement_of_in_toto_with_the_predicate_of_slsa() -> None:
    message = json_format.Parse(told(), StatementMessage())
    Statement.copy_from_pb(message).validate()
    predicate = json_format.ParseDict(json.loads(told())["predicate"], Provenance())  # unknown fields are errors
    assert message.subject[0].name == "rootport.whl"
    assert predicate.build_definition.build_type.startswith("https://rootport.dev/")
    assert predicate.run_details.builder.id
    source, lock = predicate.build_definition.resolved_dependencies
    assert source.digest["gitCommit"] == 40 * "a"
    assert lock.digest["sha256"] == hashlib.sha256(b"lock").hexdigest()
