"""Write kubernetes.json anew from Kubernetes' own .proto files: python .../protocol/extract.py FOLDER.

FOLDER is the module k8s.io/kubelet as Go unpacks it (``go mod download -json k8s.io/kubelet@v0.37.2`` tells where).
Only names, numbers and types are taken: facts of the protocol, which any peer of the kubelet must share.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

MODULE: Final = "k8s.io/kubelet@v0.37.2"
FILES: Final = {
    "dra_health_v1": "pkg/apis/dra-health/v1/api.proto",
    "dra_v1": "pkg/apis/dra/v1/api.proto",
    "dra_v1beta1": "pkg/apis/dra/v1beta1/api.proto",
    "plugin_registration_v1": "pkg/apis/pluginregistration/v1/api.proto",
    "pod_resources_v1": "pkg/apis/podresources/v1/api.proto",
}
ALPHA_HEALTH: Final = "pkg/apis/dra-health/v1alpha1/api.proto"
"""Served with the messages of v1, so it must not differ."""


def tables(file: FileDescriptorProto) -> dict[str, object]:
    """What two descriptions of one protocol must have in common."""
    return {
        "package": file.package,
        "syntax": file.syntax,
        "messages": {name: fields for message in file.message_type for name, fields in _message("", message)},
        "enums": {enum.name: {value.name: value.number for value in enum.value} for enum in file.enum_type},
        "services": {
            service.name: {
                method.name: [
                    method.input_type,
                    method.output_type,
                    "client stream" if method.client_streaming else "one",
                    "server stream" if method.server_streaming else "one",
                ]
                for method in service.method
            }
            for service in file.service
        },
    }


def _message(prefix: str, message: DescriptorProto) -> list[tuple[str, dict[str, list[object]]]]:
    name = f"{prefix}{message.name}"
    own = (name, {field.name: _field(field) for field in message.field})
    return [own, *(pair for nested in message.nested_type for pair in _message(f"{name}.", nested))]


def _field(field: FieldDescriptorProto) -> list[object]:
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    presence = "explicit presence" if field.proto3_optional else "no presence"
    return [field.number, field.type_name or kind, label, presence]


def main(folder: Path) -> None:
    """Compile the files with protoc and write their tables beside this script."""
    found: dict[str, object] = {}
    for name, path in FILES.items():
        file = folder / path
        source = {"module": MODULE, "file": path, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        found[name] = {"source": source, **_compiled(file)}
    alpha, health = (_compiled(folder / path) for path in (ALPHA_HEALTH, FILES["dra_health_v1"]))
    if json.dumps(alpha).replace("v1alpha1", "v1") != json.dumps(health):
        raise SystemExit(f"{ALPHA_HEALTH} and v1 differ: they need a .proto file each")
    Path(__file__).with_name("kubernetes.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _compiled(file: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as work:
        made = Path(work, "set")
        if protoc.main(["protoc", f"-I{file.parent}", f"--descriptor_set_out={made}", str(file)]) != 0:
            raise SystemExit(f"protoc failed on {file}")
        (description,) = FileDescriptorSet.FromString(made.read_bytes()).file
    return tables(description)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
