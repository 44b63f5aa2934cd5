# ruff: noqa: INP001 - a script, in no package
"""Writes docs/user/migrate/fields.md: what each field of other systems becomes, by converting one sample of each.

Usage: ``python tools/generate_field_tables.py`` writes the page; with ``--check`` it only reports whether it is up to
date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from driver.convert import Conversion, Finding, Outcome, Settings, convert
from driver.convert.dialects import dialects_for
from driver.convert.requests import NicRequest

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "user" / "migrate" / "fields.md"
SETTINGS: Final = Settings(
    resources={"openshift.io/mlnxnics": NicRequest(is_vf=True), "rdma/roce": NicRequest(bandwidth=10**10)},
    networks={"ml/roce": "openshift.io/mlnxnics"},
)
"""The resource map of the samples: one SR-IOV resource with its network, one shared NIC."""

_WORDS: Final = {
    Outcome.CONVERTED: "converts",
    Outcome.NOTED: "converts, with a note",
    Outcome.REFUSED: "refused",
}
_HEAD: Final = """\
# What each field becomes

Made by `tools/generate_field_tables.py`, which converts each sample: change that and run it again.

`rootport convert` prints these lines for your own manifests. A pod of which one field is refused stays as it was.

In the samples the resource map says that `openshift.io/mlnxnics` is a VF, which the network `ml/roce` attaches, and
`rdma/roce` 10 Gb/s of a NIC.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One container, or a claim, as another system's users write it.

    Attributes:
        limits: The container's limits.
        annotations: The pod's.
        labels: The pod's.
        scheduler: The pod's ``schedulerName``.
        claim: A claim's ``devices`` instead of a pod.
    """

    limits: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    claim: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return the pod or the claim."""
        if self.claim:
            kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
            return {**kind, "metadata": {"name": "sample"}, "spec": {"devices": dict(self.claim)}}
        metadata = {"name": "sample", "annotations": dict(self.annotations), "labels": dict(self.labels)}
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": dict(self.limits)}}]}
        if self.scheduler:
            spec["schedulerName"] = self.scheduler
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def convert(self) -> Conversion:
        """Return what becomes of it."""
        return convert(self.manifest(), SETTINGS)


def _request(class_: str, *expressions: str, **fields: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": class_, **({"selectors": selectors} if selectors else {}), **fields}
    return {"name": "device", "exactly": exactly}


def _claim(*requests: Mapping[str, Any], **devices: Any) -> Sample:
    return Sample(claim={"requests": list(requests), **devices})


def _config(driver: str, parameters: Mapping[str, Any]) -> list[Any]:
    return [{"opaque": {"driver": driver, "parameters": dict(parameters)}}]


def _gpu_config(**sharing: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}


_KOORD: Final = "koordinator.sh"
_OLD_KOORD: Final = "kubernetes.io"
_SCHEDULING: Final = "scheduling.koordinator.sh"
_TKE: Final = "tke.cloud.tencent.com"
_GPU: Final = 'device.attributes["gpu.nvidia.com"]'
_NIC: Final = 'device.attributes["dra.net"]'
_UUID: Final = "GPU-04cea5cd-966f-7116-1d58-1ac34421541b"
_HAMI_SHARE: Final = {"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30}
_VOLCANO_SHARE: Final = {"volcano.sh/vgpu-memory": 8000, "volcano.sh/vgpu-cores": 30}
_KOORD_SHARE: Final = {f"{_KOORD}/gpu-core": 50, f"{_KOORD}/gpu-memory": "20Gi"}

SAMPLES: Final[tuple[Sample, ...]] = (
    # Koordinator
    *(
        Sample(limits=limits)
        for domain in (_KOORD, _OLD_KOORD)
        for limits in (
            {f"{domain}/gpu": 50},
            {f"{domain}/gpu": 200},
            {f"{domain}/gpu": 150},
            {f"{domain}/gpu-core": 50, f"{domain}/gpu-memory-ratio": 50},
            {f"{domain}/gpu-core": 50, f"{domain}/gpu-memory": "20Gi"},
            {f"{domain}/gpu-memory-ratio": 50},
            {f"{domain}/gpu": 100, f"{domain}/gpu-core": 100},
            {f"{domain}/gpu.shared": 2, f"{domain}/gpu-memory-ratio": 100},
            {f"{domain}/rdma": 100},
            {f"{domain}/rdma": 20},
            {f"{domain}/fpga": 100},
        )
    ),
    Sample(limits={"nvidia.com/gpu": 100}),
    *(
        Sample(limits={f"{_KOORD}/gpu": 100, f"{_KOORD}/rdma": 100}, annotations={f"{_SCHEDULING}/{name}": value})
        for name, value in (
            ("device-joint-allocate", '{"deviceTypes":["gpu","rdma"]}'),
            ("device-joint-allocate", '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'),
            ("device-allocate-hint", '{"rdma":{"vfSelector":{}}}'),
            ("device-allocate-hint", '{"gpu":{"requiredTopologyScope":"NUMANode"}}'),
            ("device-allocate-hint", '{"gpu":{"selector":{"matchLabels":{"a":"b"}}}}'),
            ("gpu-partition-spec", '{"allocatePolicy":"Restricted"}'),
            ("gpu-partition-spec", '{"allocatePolicy":"BestEffort","ringBusBandwidth":"200Gi"}'),
            ("device-allocated", '{"gpu":[{"minor":0}]}'),
            ("reservation-affinity", "{}"),
            ("exact-match-reservation", "{}"),
        )
    ),
    *(
        Sample(limits=_KOORD_SHARE, labels={name: value})
        for name, value in (
            (f"{_KOORD}/gpu-isolation-provider", "HAMi-core"),
            (f"quota.{_SCHEDULING}/name", "team"),
            (f"quota.{_SCHEDULING}/preemptible", "false"),
            ("pod-group.scheduling.sigs.k8s.io", "job"),
            (f"{_SCHEDULING}/reservation-ignored", "true"),
            (f"{_SCHEDULING}/preemption-policy", "Never"),
            (f"{_SCHEDULING}/disable-preemptible", "true"),
            (f"{_KOORD}/qosClass", "LS"),
            (f"{_KOORD}/priority", "9000"),
        )
    ),
    Sample(limits={f"{_KOORD}/gpu": 100}, annotations={f"gang.{_SCHEDULING}/name": "job"}),
    Sample(limits={f"{_KOORD}/gpu": 100}, scheduler="koord-scheduler"),
    # TKE qGPU and Elastic GPU
    Sample(limits={f"{_TKE}/qgpu-core": 50, f"{_TKE}/qgpu-memory": 8}),
    Sample(limits={f"{_TKE}/qgpu-core": 200}),
    Sample(limits={f"{_TKE}/qgpu-core": 160, f"{_TKE}/qgpu-memory": 60}),
    Sample(limits={f"{_TKE}/qgpu-core": 50}),
    Sample(limits={f"{_TKE}/qgpu-core-greedy": 50, f"{_TKE}/qgpu-memory": 8}),
    Sample(limits={f"{_TKE}/qgpu-memory": 8}, annotations={f"{_TKE}/app-class": "online"}),
    Sample(limits={"elasticgpu.io/gpu-core": 20, "elasticgpu.io/gpu-memory": 256}),
    Sample(limits={"elasticgpu.io/gpu-core": 250}, annotations={"elasticgpu.io/assumed": "true"}),
    # HAMi
    Sample(limits={"nvidia.com/gpu": 2, **_HAMI_SHARE}),
    Sample(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}),
    Sample(limits={"nvidia.com/gpumem": 8000, "nvidia.com/gpumem-percentage": 50}),
    Sample(limits={"nvidia.com/gpumem-percentage": 120}),
    Sample(limits={**_HAMI_SHARE, "nvidia.com/gpucores": 120}),
    Sample(limits={**_HAMI_SHARE, "nvidia.com/priority": 1}),
    *(
        Sample(limits=_HAMI_SHARE, annotations={name: value})
        for name, value in (
            ("nvidia.com/use-gputype", "A100,V100"),
            ("nvidia.com/nouse-gputype", "1080"),
            ("nvidia.com/use-gpuuuid", _UUID),
            ("nvidia.com/nouse-gpuuuid", _UUID),
            ("nvidia.com/numa-bind", "true"),
            ("nvidia.com/vgpu-mode", "hami-core"),
            ("nvidia.com/vgpu-mode", "mps"),
            ("nvidia.com/vgpu-mode", "mig"),
            ("hami.io/gpu-scheduler-policy", "binpack"),
            ("hami.io/gpu-scheduler-policy", "mutex"),
            ("hami.io/node-scheduler-policy", "spread"),
            *(
                (f"hami.io/{name}", "x")
                for name in (
                    "vgpu-node",
                    "vgpu-time",
                    "bind-time",
                    "bind-phase",
                    "vgpu-devices-to-allocate",
                    "vgpu-devices-allocated",
                )
            ),
        )
    ),
    Sample(limits=_HAMI_SHARE, scheduler="hami-scheduler"),
    # Volcano
    Sample(limits={"volcano.sh/vgpu-number": 2, **_VOLCANO_SHARE}),
    Sample(limits={"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50}),
    Sample(limits={"volcano.sh/vgpu-cores": 120, "volcano.sh/vgpu-memory": 8000}),
    Sample(limits={"volcano.sh/gpu-number": 1}),
    Sample(limits={"volcano.sh/gpu-memory": 1024}),
    *(
        Sample(limits=_VOLCANO_SHARE, annotations={name: value})
        for name, value in (
            ("nvidia.com/use-gputype", "A100"),
            ("nvidia.com/nouse-gputype", "V100"),
            ("volcano.sh/vgpu-mode", "hami-core"),
            ("volcano.sh/vgpu-mode", "mig"),
            *(
                (f"volcano.sh/{name}", "x")
                for name in (
                    "vgpu-time",
                    "vgpu-ids-new",
                    "devices-to-allocate",
                    "vgpu-node",
                    "bind-time",
                    "bind-phase",
                    "predicate-time",
                    "gpu-index",
                )
            ),
        )
    ),
    Sample(limits=_VOLCANO_SHARE, scheduler="volcano"),
    # Alibaba Cloud
    Sample(limits={"aliyun.com/gpu-mem": 8}),
    Sample(limits={"aliyun.com/gpu-mem": 8, "aliyun.com/gpu-core.percentage": 25}),
    Sample(limits={"aliyun.com/gpu-mem": 8}, labels={"aliyun.com/gpu-count": "4"}),
    Sample(limits={"aliyun.com/gpu-mem": 8}, labels={"aliyun.com/gpu-count": "3"}),
    Sample(limits={"aliyun.com/gpu-mem": 8, "aliyun.com/gpu-count": 1}),
    Sample(limits={"aliyun.com/gpu-mem": 8, "aliyun.com/gpu-core.tflops": 5}),
    Sample(limits={"aliyun.com/gpu": 4}),
    Sample(limits={"alibabacloud.com/gpu-core.percentage": 30, "alibabacloud.com/gpu-memory.percentage": 20}),
    *(
        Sample(limits={"aliyun.com/gpu-mem": 8}, annotations={name: "x"})
        for name in (
            "ALIYUN_COM_GPU_MEM_IDX",
            "scheduler.framework.gpushare.allocation",
            "gpushare.alibabacloud.com/core-percentage",
        )
    ),
    # AMD
    Sample(limits={"amd.com/gpu": 2}),
    Sample(limits={"amd.com/spx_nps1": 1}),
    *(Sample(limits={f"amd.com/{mode}": 1}) for mode in ("dpx_nps2", "tpx_nps1", "qpx_nps1", "cpx_nps4")),
    Sample(limits={"amd.com/gpu": 1, "amd.com/gpumem": 8000, "amd.com/gpucores": 30}),
    *(
        Sample(limits={"amd.com/gpu": 1}, annotations={f"amd.com/{name}": value})
        for name, value in (
            ("use-gputype", "MI300X"),
            ("nouse-gputype", "MI210"),
            ("use-gpu-uuid", "node~card0"),
            ("nouse-gpu-uuid", "node~card0"),
        )
    ),
    # NVIDIA's device plugin
    Sample(limits={"nvidia.com/gpu": 4}),
    Sample(limits={"nvidia.com/gpu.shared": 1}),
    Sample(limits={"nvidia.com/mig-1g.10gb": 1}),
    # RDMA and SR-IOV
    Sample(limits={"rdma/hca_shared_devices_a": 1}),
    Sample(limits={"rdma/roce": 1}),
    Sample(limits={"openshift.io/mlnxnics": 1}),
    Sample(limits={"openshift.io/mlnxnics": 1}, annotations={"k8s.v1.cni.cncf.io/networks": "ml/roce@rdma0"}),
    Sample(limits={"rdma/roce": 1}, annotations={"k8s.v1.cni.cncf.io/networks": "macvlan"}),
    *(
        Sample(limits={name: 1})
        for name in (
            "nvidia.com/hostdev",
            "openshift.io/unmapped",
            "mellanox.com/cx5",
            "intel.com/intel_sriov_netdevice",
            "intel.com/sriov_vf",
        )
    ),
    # Other DRA drivers
    _claim(_request("gpu.nvidia.com", f'{_GPU}.productName == "NVIDIA L4"')),
    _claim(_request("gpu.nvidia.com", f'{_GPU}.brand == "Tesla"')),
    _claim(_request("gpu.nvidia.com", capacity={"requests": {"memory": "10Gi"}})),
    _claim(_request("mig.nvidia.com", f'{_GPU}.profile == "1g.10gb"')),
    _claim(_request("mig.nvidia.com", f'{_GPU}.productName == "NVIDIA A100-SXM4-40GB"')),
    _claim(_request("vfio.gpu.nvidia.com")),
    _claim(
        _request("gpu.nvidia.com"),
        config=_config("gpu.nvidia.com", _gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})),
    ),
    _claim(_request("gpu.nvidia.com"), config=_config("gpu.nvidia.com", _gpu_config(strategy="MPS"))),
    _claim(_request("dranet", f"{_NIC}.rdma == true", f'{_NIC}.ifName == "ib0"')),
    _claim(_request("dranet", f"{_NIC}.rdma == true && {_NIC}.isSriovVf == true")),
    _claim(_request("dranet", f'{_NIC}.rdma == true && {_NIC}.mac == "00:11:22:33:44:55"')),
    _claim(_request("mrdma.google.com", count=8)),
    _claim(_request("netdev.google.com")),
    _claim(_request("mrdma.google.com"), config=_config("dra.net", {"interface": {"name": "rdma0", "mtu": 9000}})),
    _claim(_request("mrdma.google.com"), config=_config("dra.net", {"interface": {"addresses": ["10.0.0.2/24"]}})),
    _claim(_request("gpu.nvidia.com"), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
    _claim(_request("gpu.nvidia.com"), constraints=[{"distinctAttribute": "gpu.nvidia.com/uuid"}]),
)


def rows() -> dict[str, dict[tuple[str, Outcome], str]]:
    """Return the findings of all samples: by dialect, then by what is written and its outcome, with the text."""
    found: dict[str, dict[tuple[str, Outcome], str]] = {}
    for sample in SAMPLES:
        for finding in sample.convert().findings:
            written = _written(finding) + _beside(finding, sample)
            found.setdefault(finding.dialect, {}).setdefault((written, finding.outcome), finding.text)
    return found


def _written(finding: Finding) -> str:
    """Return a field's last name with its value."""
    path, bracket, name = finding.field.rpartition("[")
    if not bracket or not name.endswith("]") or name[:-1].isdecimal() or "selectors" in finding.field:
        name, path = finding.field.rpartition(".")[2] + "]", finding.field
    kind = "annotation " if ".annotations" in path else "label " if ".labels" in path else ""
    value = f": {finding.value}" if finding.value else ""
    return f"{kind}`{name[:-1]}{value}`"


def _beside(finding: Finding, sample: Sample) -> str:
    """Return what else a sample's container asks for, where the finding is of one of its amounts."""
    others = [f"`{name}: {amount}`" for name, amount in sample.limits.items() if f"[{name}]" not in finding.field]
    return f" with {', '.join(others)}" if others and ".limits[" in finding.field else ""


def page() -> str:
    """Return the page."""
    sources = {dialect.name: dialect.source for dialect in dialects_for(SETTINGS)}
    return "\n".join((_HEAD, *_sections(sources)))


def _sections(sources: Mapping[str, str]) -> Iterator[str]:
    for dialect, fields in rows().items():
        yield f"## {dialect}\n"
        if dialect in sources:
            yield f"From {sources[dialect]}.\n"
        yield "| field | | what it becomes, or what to do instead |\n|---|---|---|"
        yield from (f"| {written} | {_WORDS[outcome]} | {_cell(text)} |" for (written, outcome), text in fields.items())
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def summary() -> str:
    """Return a table of each field with the values of the samples by what becomes of them, without the texts."""
    lines = ["| dialect | field | converts | converts, with a note | refused |", "|---|---|---|---|---|"]
    for dialect, fields in rows().items():
        values: dict[str, dict[Outcome, list[str]]] = {}
        for written, outcome in fields:
            name, _, value = written.partition("` with `")[0].removesuffix("`").partition(": ")
            values.setdefault(f"{name}`", {}).setdefault(outcome, []).append(value or "yes")
        for name, found in values.items():
            cells = " | ".join(
                ", ".join(f"`{_cell(value)}`" for value in dict.fromkeys(found.get(outcome, ()))) for outcome in _WORDS
            )
            lines.append(f"| {dialect} | {_cell(name)} | {cells} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--check", is_flag=True, help="Only report whether the page is up to date.")
@click.option("--summary", "only_summary", is_flag=True, help="Print the outcomes alone.")
def main(check: bool, only_summary: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Write the page."""
    if only_summary:
        click.echo(summary(), nl=False)
        return
    made = page()
    if check:
        sys.exit(
            0 if PAGE.exists() and PAGE.read_text() == made else f"{PAGE} is out of date: run {Path(__file__).name}"
        )
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
