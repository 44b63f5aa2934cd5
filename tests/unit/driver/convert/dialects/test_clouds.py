"""Tencent's qGPU, Elastic GPU, Alibaba Cloud's GPU sharing and AMD's device plugin."""

from __future__ import annotations

import pytest

from driver.convert.findings import Outcome
from driver.convert.requests import GpuRequest, Match, Wanted
from tests.unit.driver.convert.dialects.reading import GIB, MIB, NOTED, REFUSED, outcomes, read, refused

CORE = "tke.cloud.tencent.com/qgpu-core"
MEMORY = "tke.cloud.tencent.com/qgpu-memory"
COUNT = "aliyun.com/gpu-count"
ALIYUN_MEMORY = "aliyun.com/gpu-mem"
ALIYUN_CORE = "aliyun.com/gpu-core.percentage"


def nvidia(**fields: object) -> GpuRequest:
    return GpuRequest(vendor="nvidia", **fields)  # type: ignore[arg-type]


def amd(**fields: object) -> GpuRequest:
    return GpuRequest(vendor="amd", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "wanted", "noted"),
    [
        pytest.param({CORE: 50, MEMORY: 8}, nvidia(core=50, memory=8 * GIB), {MEMORY}, id="qGPU: a share"),
        pytest.param({MEMORY: 8}, nvidia(memory=8 * GIB, core_is_limited=False), {MEMORY}, id="qGPU: memory alone"),
        pytest.param({CORE: 100}, nvidia(), set(), id="qGPU: a whole card"),
        pytest.param({CORE: 200, MEMORY: 30}, nvidia(count=2), {MEMORY}, id="qGPU: two whole cards"),
        pytest.param(
            {CORE: 160, MEMORY: 60}, nvidia(count=2, core=80, memory=30 * GIB), {CORE, MEMORY}, id="qGPU: spread evenly"
        ),
        pytest.param(
            {CORE: 121, MEMORY: 31},
            nvidia(count=2, core=60, memory=15 * GIB),
            {CORE, MEMORY},
            id="qGPU: spread and rounded down",
        ),
        pytest.param(
            {"elasticgpu.io/gpu-core": 20, "elasticgpu.io/gpu-memory": 256},
            nvidia(core=20, memory=256 * MIB, core_is_limited=False),
            {"elasticgpu.io/gpu-memory"},
            id="Elastic GPU",
        ),
        pytest.param(
            {"elasticgpu.io/gpu-core": 250},
            nvidia(count=2),
            {"elasticgpu.io/gpu-core"},
            id="Elastic GPU: rounded down to whole cards",
        ),
        pytest.param(
            {ALIYUN_MEMORY: 3}, nvidia(memory=3 * GIB, core_is_limited=False), {ALIYUN_MEMORY}, id="Alibaba: memory"
        ),
        pytest.param(
            {ALIYUN_MEMORY: 3, ALIYUN_CORE: 25},
            nvidia(core=25, memory=3 * GIB),
            {ALIYUN_MEMORY},
            id="Alibaba: memory and core",
        ),
        pytest.param(
            {ALIYUN_MEMORY: 3, COUNT: 1},
            nvidia(memory=3 * GIB, core_is_limited=False),
            {ALIYUN_MEMORY, COUNT},
            id="Alibaba: a count among the limits",
        ),
        pytest.param({"aliyun.com/gpu": 1}, nvidia(), set(), id="Alibaba: one GPU"),
        pytest.param({"aliyun.com/gpu": 4}, nvidia(count=4), {"aliyun.com/gpu"}, id="Alibaba: GPUs by topology"),
        pytest.param(
            {"alibabacloud.com/gpu-core.percentage": 30, "alibabacloud.com/gpu-memory.percentage": 20},
            nvidia(core=30, memory_percent=20),
            {"alibabacloud.com/gpu-memory.percentage"},
            id="Alibaba: percent of both",
        ),
        pytest.param({"amd.com/gpu": 8}, amd(count=8), set(), id="AMD: whole GPUs"),
        pytest.param({"amd.com/spx_nps1": 2}, amd(count=2), set(), id="AMD: unpartitioned GPUs"),
        pytest.param({"amd.com/spx_nps2": 1}, amd(), {"amd.com/spx_nps2"}, id="AMD: in another memory mode"),
        pytest.param(
            {"amd.com/gpu": 1, "amd.com/gpumem": 1000, "amd.com/gpucores": 30},
            amd(core=30, memory=1000 * MIB, core_is_limited=False),
            {"amd.com/gpucores"},
            id="AMD: HAMi's share",
        ),
        pytest.param(
            {"amd.com/gpu": 1, "amd.com/gpumem": 1000},
            amd(),
            {"amd.com/gpumem"},
            id="AMD: HAMi's share of all the core",
        ),
    ],
)
def test_amounts_become_gpus_or_shares_of_them(limits: dict[str, int], wanted: GpuRequest, noted: set[str]) -> None:
    request, findings = read(limits)
    assert request.gpus == (wanted,)
    assert outcomes(findings) == dict.fromkeys(noted, NOTED)


@pytest.mark.parametrize(
    ("limits", "at_fault", "text"),
    [
        pytest.param({CORE: 50}, CORE, "write the memory", id="qGPU: core without memory"),
        pytest.param({CORE: 33, MEMORY: 1}, CORE, "a multiple of 5", id="qGPU: between two steps"),
        pytest.param({CORE: 160, MEMORY: 1}, MEMORY, "at least 2", id="qGPU: less memory than cards"),
        pytest.param(
            {f"{CORE}-greedy": 50, MEMORY: 1}, f"{CORE}-greedy", "no container can have", id="qGPU: an offline pod"
        ),
        pytest.param({"elasticgpu.io/gpu-core": 20}, "elasticgpu.io/gpu-core", "memory", id="Elastic GPU: core alone"),
        pytest.param({ALIYUN_CORE: 20}, ALIYUN_CORE, "write the memory", id="Alibaba: core alone"),
        pytest.param({ALIYUN_CORE: 120, ALIYUN_MEMORY: 1}, ALIYUN_CORE, "1 to 100", id="Alibaba: more than all core"),
        pytest.param({"aliyun.com/gpu": 1, ALIYUN_MEMORY: 1}, ALIYUN_MEMORY, "one of the two", id="Alibaba: both"),
        pytest.param(
            {"aliyun.com/gpu-core.tflops": 5, ALIYUN_MEMORY: 1},
            "aliyun.com/gpu-core.tflops",
            "percent",
            id="Alibaba: TFLOPS",
        ),
        pytest.param(
            {ALIYUN_MEMORY: 1, "alibabacloud.com/gpu-memory.percentage": 5},
            "alibabacloud.com/gpu-memory.percentage",
            "one of the two",
            id="Alibaba: memory twice",
        ),
        pytest.param(
            {"alibabacloud.com/gpu-core.percentage": 60, ALIYUN_CORE: 30, ALIYUN_MEMORY: 1},
            ALIYUN_CORE,
            "the same as alibabacloud.com/gpu-core.percentage",
            id="Alibaba: core twice",
        ),
        pytest.param(
            {"amd.com/gpu": 1, "amd.com/spx_nps1": 1, "amd.com/gpucores": 30},
            "amd.com/spx_nps1",
            "the same as amd.com/gpu",
            id="AMD: GPUs by two names",
        ),
        pytest.param({COUNT: 2}, COUNT, "aliyun.com/gpu-mem", id="Alibaba: a count alone"),
        pytest.param({"amd.com/cpx_nps4": 1}, "amd.com/cpx_nps4", "partition", id="AMD: a partition"),
        pytest.param({"amd.com/gpucores": 10}, "amd.com/gpucores", "how many GPUs", id="AMD: a share of no GPU"),
        pytest.param(
            {"amd.com/gpu": 1, "amd.com/gpucores": 101}, "amd.com/gpucores", "1 to 100", id="AMD: too much core"
        ),
    ],
)
def test_what_no_claim_says_is_refused_with_what_to_write(limits: dict[str, int], at_fault: str, text: str) -> None:
    _, findings = read(limits)
    assert list(refused(findings)) == [at_fault]
    assert text in refused(findings)[at_fault]


@pytest.mark.parametrize(
    ("limits", "label", "wanted"),
    [
        pytest.param({ALIYUN_MEMORY: 8}, "4", nvidia(count=4, memory=2 * GIB, core_is_limited=False), id="evenly"),
        pytest.param({ALIYUN_MEMORY: 8}, "1", nvidia(memory=8 * GIB, core_is_limited=False), id="one"),
        pytest.param({ALIYUN_MEMORY: 8}, "3", ALIYUN_MEMORY, id="not evenly"),
        pytest.param({ALIYUN_MEMORY: 8, ALIYUN_CORE: 10}, "2", ALIYUN_CORE, id="core as well"),
        pytest.param({ALIYUN_MEMORY: 8}, "0", COUNT, id="none"),
        pytest.param({ALIYUN_MEMORY: 8}, "33", COUNT, id="more than a claim has"),
        pytest.param({ALIYUN_MEMORY: 8}, "\u0661", COUNT, id="a digit of another script"),
        pytest.param({ALIYUN_MEMORY: 8}, "9" * 5000, COUNT, id="a number of many digits"),
    ],
)
def test_alibabas_label_spreads_the_memory_over_gpus(
    limits: dict[str, int], label: str, wanted: GpuRequest | str
) -> None:
    request, findings = read(limits, labels={COUNT: label})
    if isinstance(wanted, str):
        assert set(refused(findings)) == {wanted}
    else:
        assert request.gpus == (wanted,)
        assert outcomes(findings)[COUNT] is Outcome.CONVERTED


@pytest.mark.parametrize(
    "amount",
    ["5.5", "0.5", "-1", "x", "", "1e30", True, None, [], "500m"],
    ids=["a fraction", "less than one", "negative", "a word", "nothing", "huge", "true", "null", "a list", "half"],
)
@pytest.mark.parametrize("name", [CORE, ALIYUN_MEMORY, "amd.com/gpu", "rdma/hca", "nvidia.com/gpumem"])
def test_an_amount_that_cannot_be_read_asks_for_nothing(name: str, amount: object) -> None:
    from driver.convert import convert  # noqa: PLC0415 - the front door, for its refusal

    pod = {"kind": "Pod", "spec": {"containers": [{"name": "main", "resources": {"limits": {name: amount}}}]}}
    result = convert(pod)
    assert result.object is pod
    assert [(finding.outcome, finding.container) for finding in result.findings] == [(REFUSED, "main")]
    assert name in result.findings[0].field
    assert amount not in ("5.5", "0.5", "500m") or f"{amount} has a fraction" in result.findings[0].text


def test_hamis_annotations_choose_amds_gpus() -> None:
    annotations = {"amd.com/use-gputype": "MI300X,MI325X", "amd.com/nouse-gputype": "MI210"}
    request, findings = read({"amd.com/gpu": 2}, annotations=annotations)
    assert request.gpus == (
        amd(
            count=2,
            wanted=(
                Wanted(attribute="model", values=("MI300X", "MI325X"), match=Match.CONTAINS),
                Wanted(attribute="model", values=("MI210",), match=Match.CONTAINS, negated=True),
            ),
        ),
    )
    assert outcomes(findings) == dict.fromkeys(annotations, Outcome.CONVERTED)
