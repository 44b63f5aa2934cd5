"""Good input that the targets spoil: the examples and test data of this repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from tests.fuzz.fuzzing import REPO
from tests.fuzz.mutation import JSON_TOKENS, json_mutated, mutated
from tests.support.topologies import MACHINE_FILES, nccl_file

__all__ = [
    "CSV_TOKENS",
    "DUMP",
    "MACHINES",
    "MANIFESTS",
    "PROBLEMS",
    "TOPOLOGIES",
    "XML_TOKENS",
    "YAML_TOKENS",
    "objects",
    "spoilt_yaml",
]

MANIFESTS: Final = sorted((REPO / "examples").glob("*.yaml"))
DUMP: Final = sorted((REPO / "examples/explain").glob("*.yaml"))
MACHINES: Final = list(MACHINE_FILES)
TOPOLOGIES: Final = [nccl_file(path.stem) for path in MACHINE_FILES]
PROBLEMS: Final = sorted((REPO / "tests/data/conformance").glob("*.jsonl"))
CSV_TOKENS: Final = (
    *(b",", b'"', b"\n", b"\r", b"\0", b"nan", b"1e15", b"1e99", b"-1", b"0.5", b"1e-9", b"|", b"9" * 400, b"\xff"),
    *(
        "\N{ARABIC-INDIC DIGIT FIVE}".encode(),
        "\N{ZERO WIDTH NO-BREAK SPACE}".encode(),
        b"num_gpu",
        b"gpu",
        b"gpu_milli",
    ),
)
YAML_TOKENS: Final = (
    *JSON_TOKENS,
    *(b"&a ", b"*a", b"[&a [*a]]", b"<<: ", b"!!merge <<", b"!!python/object:os.system ", b"!!int ", b"!!float "),
    *(
        b"!!binary ",
        b"!!set ",
        b"!!bool ",
        b"!!timestamp ",
        b"!!null ",
        b"!<x> ",
        b"- ",
        b"? ",
        b"- - ",
        b"? ? ",
        b"{a: ",
    ),
    *(
        b"| \n",
        b">\n",
        b"---\n",
        b"...\n",
        b"%YAML 9.9\n",
        b".nan",
        b".inf",
        b"2026-01-01",
        b"0b_",
        b"0x",
        b"1:30",
        b":59",
    ),
    *(b"=", b"~", b"\t", b"#", b"'", b"@", b"`", b"\xc2\x85", b"\xe2\x80\xa8", b"  "),
)
XML_TOKENS: Final = (
    *(b"<pci ", b"</pci>", b"/>", b">", b"<", b"<nic>", b"<net name='a+b'/>", b"<gpu dev='0'/>", b"<cpu numaid='-1'>"),
    *(b' busid="0000:00:00.0"', b' class="0x060400"', b' busid="fffffff:ffff:ff"', b"0x", b'"', b"'", b"9" * 5000),
    *(
        b"<!DOCTYPE a [",
        b"<!ENTITY a 'b'>",
        b"&a;",
        b"&amp;",
        b"&#x0;",
        b"&#xd800;",
        b"<![CDATA[",
        b"]]>",
        b"<!--",
        b"-->",
    ),
    *(b"<?xml version='1.1' encoding='utf-16'?>", b"<?a b?>", b"xmlns:a='b' ", b"a:b", b"\xff\xfe", b"\0"),
)


@cache
def objects(path: Path) -> tuple[Any, ...]:
    """The objects of a YAML file, those of its lists one by one."""
    documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
    return tuple(item for document in documents for item in document.get("items", [document]))


def spoilt_yaml(samples: list[Path]) -> Callable[[Random], bytes]:
    """Makes files like these, some wrong in their form, some in their values, some written as JSON."""

    def make(random: Random) -> bytes:
        sample = random.choice(samples)
        if random.randrange(2):
            return mutated(random, sample.read_bytes(), YAML_TOKENS)
        spoilt = [json_mutated(random, item) for item in objects(sample)[:3]]
        if random.randrange(2):
            return b"\n---\n".join(json.dumps(item).encode() for item in spoilt)
        return yaml.safe_dump_all(spoilt).encode(errors="replace")

    return make
