"""Plans get the files of the driver that runs now, and the means of isolation that the node has."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import pytest

from driver.api.resource_v1 import ResourceClaim
from driver.errors import InputError, NodeError, RootportError
from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.plan import PreparePlan
from driver.plan.effects import RunMpsDaemon
from driver.plan.host import NicHost
from kubeletplugin.claims.planner import ClaimPlanner
from kubeletplugin.node.hami_core_library import HamiCoreFile
from kubeletplugin.node.roots import Roots
from tests.support.plan.builders import (
    GIB,
    MIG_PROFILES,
    claim,
    config,
    given,
    gpu,
    h100,
    mig_instance,
    nic,
    node,
    parameters,
    share,
)
from tests.support.stub_hami import build

LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    (root / LIBRARIES).mkdir(parents=True)
    return root


def install_driver(host: Path, version: str) -> None:
    module = host / "sys/module/nvidia"
    module.mkdir(parents=True, exist_ok=True)
    (module / "version").write_text(f"{version}\n")
    for library in (host / LIBRARIES).iterdir():
        library.unlink()
    (host / LIBRARIES / f"libcuda.so.{version}").touch()


def planner(host: Path, device_root: str = "") -> ClaimPlanner:
    return ClaimPlanner(Roots.of(host, device_root), metadata_dir=Path("/var/lib/kubelet/plugins/rootport.dev/m"))


def planned(plans: ClaimPlanner, of: ResourceClaim, inventory: Inventory) -> PreparePlan:
    return plans.finish(plans.decide(of, inventory, NicHost()), {})


def mounts(plan: PreparePlan) -> list[str]:
    assert plan.spec is not None
    return [mount.host_path for device in plan.spec.devices for mount in device.mounts if "libcuda" in mount.host_path]


def test_a_gpu_comes_with_its_drivers_libraries(host: Path) -> None:
    install_driver(host, "580.95.05")
    plan = planned(planner(host), claim(given("r", gpu(0).name)), node(gpu(0)))
    assert set(mounts(plan)) == {f"/{LIBRARIES}/libcuda.so.580.95.05"}


def test_after_an_update_of_the_driver_the_new_libraries_are_given(host: Path) -> None:
    install_driver(host, "580.95.05")
    plans = planner(host)
    planned(plans, claim(given("r", gpu(0).name)), node(gpu(0)))
    install_driver(host, "590.10.01")
    assert set(mounts(planned(plans, claim(given("r", gpu(0).name)), node(gpu(0))))) == {
        f"/{LIBRARIES}/libcuda.so.590.10.01"
    }


def test_a_hook_program_that_comes_after_the_driver_is_used(host: Path) -> None:
    install_driver(host, "580.95.05")
    now = [0.0]
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), clock=lambda: now[0])

    def hooks() -> list[str]:
        spec = planned(plans, claim(given("r", gpu(0).name)), node(gpu(0))).spec
        assert spec is not None
        return [hook.path for device in spec.devices for hook in device.hooks]

    assert hooks() == []
    (host / "usr/bin").mkdir()
    (host / "usr/bin/nvidia-cdi-hook").touch()
    assert hooks() == [], "not looked for with every claim"
    now[0] = 61.0
    assert set(hooks()) == {"/usr/bin/nvidia-cdi-hook"}


def test_host_paths_stand_below_the_device_root(host: Path) -> None:
    install_driver(host, "580.95.05")
    plan = planned(planner(host, str(host)), claim(given("r", gpu(0).name)), node(gpu(0)))
    assert set(mounts(plan)) == {f"{host}/{LIBRARIES}/libcuda.so.580.95.05"}
    assert plan.spec is not None
    assert f"{host}/dev/nvidia0" in plan.spec.devices[0].host_device_nodes


def test_a_nics_nodes_are_the_hosts_own_where_the_driver_is_in_a_container(host: Path) -> None:
    driver = host / "run/nvidia/driver"
    (driver / "dev").mkdir(parents=True)
    (driver / "dev/nvidiactl").touch()
    (driver / LIBRARIES).mkdir(parents=True)
    (driver / LIBRARIES / "libcuda.so.580.95.05").touch()
    (host / "sys/module/nvidia").mkdir(parents=True)
    (host / "sys/module/nvidia/version").write_text("580.95.05\n")
    both = claim(given("g", gpu(0).name), given("n", nic(0).name))
    plan = planned(planner(host, "/run/nvidia/driver"), both, node(gpu(0), nic(0)))
    assert "/run/nvidia/driver/dev/nvidia0" in plan.device_paths
    assert "/dev/infiniband/uverbs0" in plan.device_paths
    assert set(mounts(plan)) == {f"/run/nvidia/driver/{LIBRARIES}/libcuda.so.580.95.05"}


def test_a_nic_does_not_wait_for_the_drivers_container(host: Path) -> None:
    (host / "sys/module/nvidia").mkdir(parents=True)
    (host / "sys/module/nvidia/version").write_text("580.95.05\n")
    plans = planner(host, "/run/nvidia/driver")
    assert planned(plans, claim(given("n", nic(0).name)), node(gpu(0), nic(0))).devices
    with pytest.raises(InputError, match="does not exist"):
        planned(plans, claim(given("g", gpu(0).name)), node(gpu(0), nic(0)))


def test_without_the_drivers_libraries_a_gpu_is_refused_and_a_nic_is_not(host: Path) -> None:
    inventory = node(gpu(0), nic(0))
    with pytest.raises(NodeError, match="libcuda first, are not below") as refused:
        planned(planner(host), claim(given("r", gpu(0).name)), inventory)
    assert gpu(0).name in refused.value.message
    assert planned(planner(host), claim(given("r", nic(0).name)), inventory).devices


PARTITION = DeviceName("mig-0000-10-00-0-1g-10gb-2")


@pytest.mark.parametrize("name", [PARTITION, "gpu-ratio-0000-10-00-0"])
def test_a_part_of_a_gpu_needs_the_drivers_libraries_as_well(host: Path, name: str) -> None:
    with pytest.raises(NodeError, match="libcuda first, are not below"):
        planner(host).decide(claim(given("r", name)), node(h100(0)), NicHost())
    install_driver(host, "580.95.05")
    plans = planner(host)
    decision = plans.decide(claim(given("r", name)), node(h100(0)), NicHost())
    assert mounts(plans.finish(decision, {PARTITION: mig_instance(MIG_PROFILES[0], 2)}))


def offers(host: Path, strategy: str) -> Path:
    file = host / "gpu-policies.yaml"
    file.write_text(POLICIES % strategy)
    return file


def mps(host: Path, **options: object) -> PreparePlan:
    half = share("r", gpu(0).name, core=50, memory=40 * GIB)
    sharing = config(parameters("GpuConfig", sharing={"strategy": "mps"}))
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=offers(host, "mps"), **options)
    return planned(plans, claim(half, configs=(sharing,)), node(h100(0)))


def test_the_programs_for_sharing_are_those_of_the_drivers_files(host: Path) -> None:
    install_driver(host, "580.95.05")
    with pytest.raises(NodeError, match="the node has no nvidia-cuda-mps-control"):
        mps(host)
    (host / "usr/bin").mkdir()
    (host / "usr/bin/nvidia-cuda-mps-control").touch()
    plan = mps(host, runtime_root="/run/elsewhere")
    (effect,) = plan.effects
    assert isinstance(effect, RunMpsDaemon)
    assert effect.folder == f"/run/elsewhere/mps/{gpu(0).name}"
    assert plan.devices[0].isolation is not None
    assert plan.devices[0].isolation.version == "580.95.05"


def test_hami_cores_library_is_told_by_its_content(host: Path) -> None:
    install_driver(host, "580.95.05")
    sharing = config(parameters("GpuConfig", sharing={"strategy": "hamiCore"}))
    half = claim(share("r", gpu(0).name, core=50, memory=40 * GIB), configs=(sharing,))
    library = host / "opt/hami/libvgpu.so"
    plans = ClaimPlanner(
        Roots.of(host, ""),
        metadata_dir=Path("/m"),
        hami_core=Path("/opt/hami/libvgpu.so"),
        gpu_policies=offers(host, "hamiCore"),
    )
    with pytest.raises(NodeError, match="HAMi-core"):
        plans.decide(half, node(h100(0)), NicHost())
    library.parent.mkdir(parents=True)
    versions = []
    contents = (build(), build("LAZY"))
    for content in contents:
        library.write_bytes(content)
        plan = planned(plans, half, node(h100(0)))
        assert plan.devices[0].isolation is not None
        versions.append(plan.devices[0].isolation.version)
        assert plan.spec is not None
        assert "/opt/hami/libvgpu.so" in [mount.host_path for mount in plan.spec.devices[0].mounts]
        assert "/m/" in next(m.host_path for m in plan.spec.devices[0].mounts if "preload" in m.container_path)
    assert versions == [f"sha256:{hashlib.sha256(content).hexdigest()[:12]}" for content in contents]


def test_a_hami_core_that_does_not_work_is_refused_with_the_reason(host: Path) -> None:
    install_driver(host, "580.95.05")
    sharing = config(parameters("GpuConfig", sharing={"strategy": "hamiCore"}))
    library = host / "opt/hami/libvgpu.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(build()[:-6000])
    plans = ClaimPlanner(
        Roots.of(host, ""),
        metadata_dir=Path("/m"),
        hami_core=Path("/opt/hami/libvgpu.so"),
        gpu_policies=offers(host, "hamiCore"),
    )
    with pytest.raises(NodeError, match=r"/opt/hami/libvgpu\.so is cut off: it has"):
        plans.decide(
            claim(share("r", gpu(0).name, core=50, memory=40 * GIB), configs=(sharing,)), node(h100(0)), NicHost()
        )


def test_the_library_is_not_looked_at_for_another_strategy(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(host, "580.95.05")
    monkeypatch.setattr(HamiCoreFile, "checked", lambda _: pytest.fail("it takes time"))
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), hami_core=Path("/opt/hami/libvgpu.so"))
    for config_ in (None, config(parameters("GpuConfig", sharing={"strategy": "timeSlicing"})), config({"kind": []})):
        configs = (config_,) if config_ else ()
        with suppress(RootportError):
            plans.decide(
                claim(share("r", gpu(0).name, core=50, memory=40 * GIB), configs=configs), node(h100(0)), NicHost()
            )


POLICIES = """
apiVersion: rootport.dev/v1alpha1
kind: GpuPolicies
policies:
- strategies: [%s]
"""


def test_claims_are_held_to_the_administrators_policies_which_may_change(host: Path, tmp_path: Path) -> None:
    install_driver(host, "580.95.05")
    (host / "usr/bin").mkdir()
    (host / "usr/bin/nvidia-cuda-mps-control").touch()
    file = tmp_path / "policies/gpu-policies.yaml"
    now = [0.0]
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=file, clock=lambda: now[0])
    half = claim(
        share("r", gpu(0).name, core=50, memory=40 * GIB),
        configs=(config(parameters("GpuConfig", sharing={"strategy": "mps"})),),
    )

    def planned_later() -> PreparePlan:
        now[0] += 61
        return planned(plans, half, node(h100(0)))

    with pytest.raises(NodeError, match=r"how its GPU may be shared is not known: --gpu-policies .* no folder"):
        planned_later()
    file.parent.mkdir()
    with pytest.raises(InputError, match="this GPU is shared by timeSlicing"):
        planned_later()
    file.write_text(POLICIES % "timeSlicing")
    with pytest.raises(InputError, match=r"sharing\.strategy mps, and this GPU is shared by timeSlicing"):
        planned_later()
    file.write_text("[" * 5000)
    with pytest.raises(InputError, match="this GPU is shared by timeSlicing"):
        planned_later()
    file.write_text(POLICIES % "mps")
    planned_later()


def test_what_the_node_lacks_for_the_strategies_that_its_gpus_offer_is_told(host: Path) -> None:
    file = host / "gpu-policies.yaml"
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=file)
    file.write_text(POLICIES % "timeSlicing")
    assert plans.strategy_problems(None) == plans.strategy_problems(node(h100(0))) == {}
    for strategy, installed, told in (
        ("mps", False, "the files of NVIDIA's driver are not on the node"),
        ("mps", True, "the node has no nvidia-cuda-mps-control"),
        ("hamiCore", True, "HAMi-core's library cannot be used: the kubelet plugin is told of none (--hami-core)"),
    ):
        if installed:
            install_driver(host, "580.95.05")
        now = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=offers(host, strategy))
        ((found, problem),) = now.strategy_problems(node(h100(0))).items()
        assert (found, problem.startswith(told)) == (strategy, True)
        assert now.strategy_problems(node(gpu(0, vendor="amd"))) == {}
    (host / "usr/bin").mkdir()
    (host / "usr/bin/nvidia-cuda-mps-control").touch()
    now = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=offers(host, "mps"))
    assert now.strategy_problems(node(h100(0))) == {"mps": ""}


def test_policies_that_are_wrong_from_the_start_keep_no_other_device_from_its_claim(host: Path, tmp_path: Path) -> None:
    install_driver(host, "580.95.05")
    file = tmp_path / "gpu-policies.yaml"
    file.write_text(POLICIES % "fastest")
    plans = ClaimPlanner(Roots.of(host, ""), metadata_dir=Path("/m"), gpu_policies=file)
    with pytest.raises(NodeError, match=r"ml/train.*strategies"):
        planned(plans, claim(given("r", gpu(0).name)), node(gpu(0, vendor="nvidia")))
    planned(plans, claim(given("r", nic(1).name)), node(nic(1)))
