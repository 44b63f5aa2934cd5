"""HAMi's and Volcano's vGPUs: so many GPUs, and of each the same memory and core."""

from __future__ import annotations

import pytest

from driver.convert import convert
from driver.convert.findings import Outcome
from driver.convert.requests import GpuRequest, Match, Wanted
from driver.convert.settings import Settings
from tests.unit.driver.convert.dialects.reading import MIB, NOTED, REFUSED, outcomes, read, refused

HAMI = {
    "number": "nvidia.com/gpu",
    "memory": "nvidia.com/gpumem",
    "percent": "nvidia.com/gpumem-percentage",
    "core": "nvidia.com/gpucores",
}
VOLCANO = {
    "number": "volcano.sh/vgpu-number",
    "memory": "volcano.sh/vgpu-memory",
    "percent": "volcano.sh/vgpu-memory-percentage",
    "core": "volcano.sh/vgpu-cores",
}
BOTH = pytest.mark.parametrize("names", [HAMI, VOLCANO], ids=["HAMi", "Volcano"])
UUID = "GPU-04cea5cd-966f-7116-1d58-1ac34421541b"


def nvidia(**fields: object) -> GpuRequest:
    return GpuRequest(vendor="nvidia", **fields)  # type: ignore[arg-type]


@BOTH
@pytest.mark.parametrize(
    ("asked", "wanted", "noted"),
    [
        pytest.param({"memory": 3000}, nvidia(memory=3000 * MIB, core_is_limited=False), {"memory"}, id="memory alone"),
        pytest.param(
            {"number": 2, "memory": 3000, "core": 30},
            nvidia(count=2, core=30, memory=3000 * MIB),
            {"memory"},
            id="memory and core of each of two",
        ),
        pytest.param(
            {"number": 1, "percent": 50},
            nvidia(memory_percent=50, core_is_limited=False),
            {"percent"},
            id="percent of memory",
        ),
        pytest.param(
            {"number": 1, "memory": 1000, "percent": 50, "core": 10},
            nvidia(core=10, memory=1000 * MIB),
            {"memory", "percent"},
            id="memory counts before its percentage",
        ),
        pytest.param(
            {"number": 1, "core": 40}, nvidia(core=40, memory_percent=100), {"core"}, id="core alone has all the memory"
        ),
        pytest.param({"number": 3, "core": 100}, nvidia(count=3), set(), id="all core is the whole GPU"),
        pytest.param(
            {"number": 1, "core": 100, "memory": 1000}, nvidia(), {"memory"}, id="all core with less memory is too"
        ),
        pytest.param({"number": 2, "percent": 100}, nvidia(count=2), set(), id="all memory is the whole GPU"),
    ],
)
def test_amounts_become_a_share_of_each_gpu(
    names: dict[str, str], asked: dict[str, int], wanted: GpuRequest, noted: set[str]
) -> None:
    request, findings = read({names[key]: value for key, value in asked.items()})
    assert request.gpus == (wanted,)
    assert outcomes(findings) == {names[key]: NOTED for key in noted}


@BOTH
@pytest.mark.parametrize(
    ("asked", "at_fault"),
    [
        pytest.param({"number": 1, "percent": 120}, "percent", id="more than all the memory"),
    ],
)
def test_what_is_never_scheduled_is_refused(names: dict[str, str], asked: dict[str, int], at_fault: str) -> None:
    _, findings = read({names[key]: value for key, value in asked.items()})
    assert "write 1 to 100" in refused(findings)[names[at_fault]]


@BOTH
def test_shares_of_no_gpu_are_refused(names: dict[str, str]) -> None:
    request, findings = read({names["number"]: "0", names["memory"]: 3000, names["core"]: 30})
    assert request.gpus == ()
    assert set(refused(findings)) == {names["memory"], names["core"]}
    assert all(names["number"] in text for text in refused(findings).values())
    assert read({names["number"]: 0, names["memory"]: "0"}) == (request, ())
    pod = {
        "kind": "Pod",
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {names["number"]: "0", names["memory"]: 3000}}}]
        },
    }
    assert convert(pod).outcome is REFUSED


def test_more_than_all_core_is_all_of_it_to_hami_and_never_scheduled_by_volcano() -> None:
    request, findings = read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100, "nvidia.com/gpucores": 150})
    assert request.gpus == (nvidia(),)
    assert outcomes(findings) == {"nvidia.com/gpumem": NOTED, "nvidia.com/gpucores": NOTED}
    _, findings = read({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 150})
    assert outcomes(findings) == {"volcano.sh/vgpu-cores": REFUSED}


def test_a_gpu_number_alone_is_hamis_only_in_a_pod_of_hami() -> None:
    use = {"nvidia.com/use-gputype": "A100"}
    request, findings = read({"nvidia.com/gpu": 1}, annotations=use)
    model = Wanted(attribute="model", values=("A100",), match=Match.CONTAINS)
    assert request.gpus == (nvidia(wanted=(model,)),)
    assert {finding.dialect for finding in findings} == {"HAMi"}
    request, findings = read({"nvidia.com/gpu": 1}, scheduler="hami-scheduler")
    assert request.gpus == (nvidia(),)
    request, findings = read({"nvidia.com/gpu": 1})
    assert request.gpus == (nvidia(),)
    assert findings == ()


@pytest.mark.parametrize(
    ("annotation", "value", "wanted"),
    [
        pytest.param(
            "nvidia.com/use-gputype",
            "A100, V100,",
            Wanted(attribute="model", values=("A100", "V100"), match=Match.CONTAINS),
            id="models",
        ),
        pytest.param(
            "nvidia.com/nouse-gputype",
            "1080",
            Wanted(attribute="model", values=("1080",), match=Match.CONTAINS, negated=True),
            id="no models",
        ),
        pytest.param(
            "nvidia.com/use-gputype",
            "NVIDIA-Tesla V100-PCIE-32GB",
            Wanted(attribute="model", values=("Tesla V100-PCIE-32GB",), match=Match.CONTAINS),
            id="a card's whole type",
        ),
        pytest.param("nvidia.com/use-gputype", "nvidia", None, id="any card"),
        pytest.param("nvidia.com/use-gpuuuid", UUID, Wanted(attribute="uuid", values=(UUID,)), id="a UUID"),
        pytest.param(
            "nvidia.com/nouse-gpuuuid",
            f"{UUID},{UUID}",
            Wanted(attribute="uuid", values=(UUID, UUID), negated=True),
            id="no UUIDs",
        ),
    ],
)
def test_hamis_annotations_choose_the_gpus(annotation: str, value: str, wanted: Wanted | None) -> None:
    request, findings = read({"nvidia.com/gpu": 1}, annotations={annotation: value})
    assert request.gpus == (nvidia(wanted=() if wanted is None else (wanted,)),)
    assert outcomes(findings) == {annotation: Outcome.CONVERTED}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        pytest.param("nvidia.com/use-gputype", "", id="no model"),
        pytest.param("nvidia.com/use-gputype", '"] || true || ["', id="CEL for a model"),
        pytest.param("nvidia.com/use-gputype", ",".join(f"m{number}" for number in range(17)), id="too many models"),
        pytest.param("nvidia.com/nouse-gputype", "NVIDIA", id="no card at all"),
        pytest.param("nvidia.com/use-gpuuuid", "MIG-7", id="a partition's UUID"),
        pytest.param("nvidia.com/use-gpuuuid", "0", id="an index for a UUID"),
        pytest.param("nvidia.com/vgpu-mode", "mig", id="MIG by memory"),
        pytest.param("nvidia.com/vgpu-mode", "xyz", id="no mode"),
    ],
)
def test_an_annotation_that_says_nothing_that_a_claim_can_say_is_refused(annotation: str, value: str) -> None:
    _, findings = read({"nvidia.com/gpumem": 1000}, annotations={annotation: value})
    assert set(refused(findings)) == {annotation}


@pytest.mark.parametrize(
    ("limits", "annotations", "strategy"),
    [
        pytest.param({"nvidia.com/gpumem": 1}, {"nvidia.com/vgpu-mode": "hami-core"}, "hamiCore", id="HAMi"),
        pytest.param(
            {"nvidia.com/gpumem": 1, "nvidia.com/gpucores": 20}, {"nvidia.com/vgpu-mode": "mps"}, "mps", id="HAMi, MPS"
        ),
        pytest.param({"volcano.sh/vgpu-memory": 1}, {"volcano.sh/vgpu-mode": "hami-core"}, "hamiCore", id="Volcano"),
    ],
)
def test_a_mode_becomes_the_strategy_that_limits_as_it_did(
    limits: dict[str, int], annotations: dict[str, str], strategy: str
) -> None:
    request, findings = read(limits, annotations=annotations)
    assert [gpu.strategy for gpu in request.gpus] == [strategy]
    assert set(outcomes(findings).values()) == {Outcome.CONVERTED}


@pytest.mark.parametrize(
    ("limits", "at_fault"),
    [
        pytest.param({"nvidia.com/gpu": 2, "nvidia.com/gpucores": 20}, "nvidia.com/gpu", id="of two GPUs"),
        pytest.param({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 20}, "nvidia.com/gpu", id="of two without a core"),
    ],
)
def test_mps_is_refused_where_a_claim_has_none(limits: dict[str, int], at_fault: str) -> None:
    _, findings = read(limits, annotations={"nvidia.com/vgpu-mode": "mps"})
    assert set(refused(findings)) == {at_fault}


def test_numa_binding_is_a_constraint_and_a_mutex_the_whole_gpu() -> None:
    bound = {"nvidia.com/numa-bind": "true"}
    request, _ = read({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 10}, annotations=bound)
    assert request.gpus[0].together == ("resource.kubernetes.io/numaNode",)
    alone = {"hami.io/gpu-scheduler-policy": "mutex,numa"}
    request, findings = read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10}, annotations=alone)
    assert request.gpus == (nvidia(),)
    assert outcomes(findings) == {"hami.io/gpu-scheduler-policy": NOTED, "nvidia.com/gpumem": NOTED}


def test_a_priority_has_no_equal() -> None:
    request, findings = read({"nvidia.com/gpumem": 10, "nvidia.com/gpucores": 5, "nvidia.com/priority": 1})
    assert request.gpus == (nvidia(core=5, memory=10 * MIB),)
    assert outcomes(findings)["nvidia.com/priority"] is NOTED
    _, findings = read({"nvidia.com/priority": 1})
    assert set(refused(findings)) == {"nvidia.com/priority"}


def test_volcano_reads_one_of_its_two_annotations_on_models() -> None:
    annotations = {"nvidia.com/use-gputype": "A100", "nvidia.com/nouse-gputype": "V100"}
    request, findings = read({"volcano.sh/vgpu-number": 1}, annotations=annotations)
    assert request.gpus == (nvidia(wanted=(Wanted(attribute="model", values=("A100",), match=Match.CONTAINS),)),)
    assert outcomes(findings) == {
        "nvidia.com/use-gputype": Outcome.CONVERTED,
        "nvidia.com/nouse-gputype": NOTED,
    }


@pytest.mark.parametrize(
    ("limits", "wanted", "found"),
    [
        pytest.param({"volcano.sh/gpu-number": 2}, nvidia(count=2), {}, id="whole GPUs"),
        pytest.param(
            {"volcano.sh/gpu-memory": 1024},
            nvidia(memory=1024 * MIB, core_is_limited=False),
            {"volcano.sh/gpu-memory": NOTED},
            id="memory of one",
        ),
        pytest.param(
            {"volcano.sh/gpu-memory": 1024, "volcano.sh/gpu-number": 1},
            None,
            {"volcano.sh/gpu-number": REFUSED},
            id="both",
        ),
        pytest.param(
            {"volcano.sh/gpu-memory": 1024, "volcano.sh/vgpu-number": 1},
            None,
            {"volcano.sh/gpu-memory": REFUSED},
            id="the older one beside a vGPU",
        ),
    ],
)
def test_volcanos_older_names(limits: dict[str, int], wanted: GpuRequest | None, found: dict[str, Outcome]) -> None:
    request, findings = read(limits)
    assert request.gpus == (() if wanted is None else (wanted,))
    assert outcomes(findings) == found


def test_volcanos_scheduler_stays_with_a_note() -> None:
    _, findings = read({"volcano.sh/gpu-number": 1}, scheduler="volcano")
    assert [(finding.field, finding.outcome) for finding in findings] == [("spec.schedulerName", NOTED)]


@pytest.mark.parametrize(
    "limits",
    [
        {"nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 10},
        {"volcano.sh/vgpu-memory": 1000, "volcano.sh/vgpu-cores": 10},
        {"tke.cloud.tencent.com/qgpu-core": 10, "tke.cloud.tencent.com/qgpu-memory": 1},
        {"aliyun.com/gpu-mem": 1, "aliyun.com/gpu-core.percentage": 10},
    ],
    ids=["HAMi", "Volcano", "qGPU", "Alibaba Cloud"],
)
def test_shares_of_systems_with_limits_get_the_strategy_of_the_settings(limits: dict[str, int]) -> None:
    request, findings = read(limits, settings=Settings(share_strategy="hamiCore"))
    assert [(gpu.strategy, gpu.core_is_limited) for gpu in request.gpus] == [("hamiCore", True)]
    assert findings == ()
