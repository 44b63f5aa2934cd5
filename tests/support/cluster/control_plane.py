"""etcd and a real API server, and where asked for the scheduler and the controller-manager."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

import yaml

from driver.adapters.kubernetes.resources import DEVICE_TAINT_RULE_VERSIONS
from tests.support.cluster.binaries import KUBERNETES_MINOR, Binaries
from tests.support.cluster.machine import Machine
from tests.support.cluster.processes import Process, Processes, wait_until
from tests.support.ports import free_port

__all__ = ["ADMIN_TOKEN", "TAINT_RULES", "ControlPlane", "KubectlError", "gates_off"]

ADMIN_TOKEN: Final = "admin"  # reachable from this computer alone, and gone with the test
TAINT_RULES: Final = DEVICE_TAINT_RULE_VERSIONS[{34: 2, 35: 2, 36: 1}.get(KUBERNETES_MINOR, 0)]
"""DeviceTaintRules in the newest version that the Kubernetes of the tests has."""
_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_SERVICE_ADDRESS: Final = "10.96.0.1"


def gates_off(*gates: str) -> str:
    """``--feature-gates`` without these, and without those that need them: no program starts otherwise."""
    # On by default since 1.37; before, the one is not known and the other is off.
    needed_by = {"DRAConsumableCapacity": "DRAFractionalCapacityRange", "DRADeviceTaints": "DRADeviceTaintRules"}
    too = [needed_by[gate] for gate in gates if gate in needed_by and KUBERNETES_MINOR >= 37]
    return ",".join(f"{gate}=false" for gate in (*gates, *too))


class ControlPlane:
    """A Kubernetes control plane that :meth:`start` has made ready; a ``with`` block starts and stops it.

    Args:
        folder: New; data, keys, logs and kubeconfigs go below it.
        binaries: From :func:`tests.support.cluster.binaries.build`.
        machine: Where it runs; None for this computer, on 127.0.0.1 and free ports.
        full: Whether scheduler and controller-manager run as well.
        outlive: Whether it goes on when this process ends.
        feature_gates: Of API server, controller-manager and scheduler, such as ``DRAPartitionableDevices=false``.
        runtime_config: What the API server serves beside the defaults, such as ``resource.k8s.io/v1beta2=true``.
        taint_rules: Whether it serves DeviceTaintRules (:data:`TAINT_RULES`) in Kubernetes before 1.37 too.

    Attributes:
        kubeconfig: The administrator's (group system:masters).
        server: The API server's URL.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Binaries,
        *,
        machine: Machine | None = None,
        full: bool = False,
        outlive: bool = False,
        feature_gates: str = "",
        runtime_config: str = "",
        taint_rules: bool = False,
    ) -> None:
        self.folder = folder
        if taint_rules and TAINT_RULES.version != "v1":
            runtime_config = _both(runtime_config, f"{TAINT_RULES.group}/{TAINT_RULES.version}=true")
            # Kubernetes 1.34 has no gate for the rules alone.
            needed = ("DRADeviceTaints", "DRADeviceTaintRules")[: 1 if KUBERNETES_MINOR < 35 else 2]
            feature_gates = _both(feature_gates, *(f"{gate}=true" for gate in needed))
        self._runtime_config = runtime_config
        self._feature_gates = feature_gates
        self.binaries = binaries
        self.processes = Processes(folder / "logs", machine, outlive=outlive)
        self._full = full
        self._machine = machine
        self._address = machine.address if machine else "127.0.0.1"
        # Pods reach the API server by its service's port, and there is no kube-proxy here to translate it.
        self._port = 443 if machine else free_port()
        self._etcd_ports = (2379, 2380) if machine else (free_port(), free_port())
        self.server = f"https://{self._address}:{self._port}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self._keys = folder / "keys"
        self._keys.mkdir(parents=True, exist_ok=True)
        self._tokens = {ADMIN_TOKEN: ("admin", "system:masters")}
        self._api_server: Process | None = None
        self._etcd: Process | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_user(self, token: str, user: str, *groups: str) -> None:
        """A user known by a fixed token; before :meth:`start`."""
        self._tokens[token] = (user, ",".join(groups))

    def start(self) -> None:
        """Start everything and wait until the API server is ready (1 to 5 s)."""
        self._write_keys()
        if self._machine is not None:
            # The address of the kubernetes service, so that pods reach the API server without kube-proxy.
            self._machine.run("ip", "addr", "add", f"{_SERVICE_ADDRESS}/32", "dev", "lo")
        self._start_etcd()
        self.start_api_server()
        if self._full:
            self.start_controller_manager("--secure-port=10257")
            self.start_scheduler("--secure-port=10259")

    def start_controller_manager(self, *options: str) -> Process:
        """The stock controllers; with ``--controllers=…`` only some of them. No port, unless an option names one."""
        return self.processes.start(
            "kube-controller-manager",
            self.binaries["kube-controller-manager"],
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self._keys / 'service-account.key'}",
            f"--root-ca-file={self._certificate}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
            "--concurrent-gc-syncs=2",
            f"--feature-gates={self._feature_gates}",
            "--v=1",
            *options,
        )

    def start_scheduler(self, *options: str) -> Process:
        """The stock scheduler. No port for metrics, unless an option names one: several run side by side."""
        return self.processes.start(
            "kube-scheduler",
            self.binaries["kube-scheduler"],
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--authorization-always-allow-paths=/metrics,/healthz",
            f"--feature-gates={self._feature_gates}",
            "--v=1",
            *options,
        )

    def start_api_server(self) -> None:
        """Start the API server, again after :meth:`stop_api_server`, and wait until it is ready."""
        self._api_server = self.processes.start(
            "kube-apiserver",
            self.binaries["kube-apiserver"],
            f"--etcd-servers=http://127.0.0.1:{self._etcd_ports[0]}",
            f"--cert-dir={self._keys}",
            f"--advertise-address={self._address}",
            f"--bind-address={'0.0.0.0' if self._machine else '127.0.0.1'}",
            f"--secure-port={self._port}",
            f"--service-cluster-ip-range={_SERVICE_ADDRESS}/24",
            f"--token-auth-file={self._keys / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={self._keys / 'service-account.pub'}",
            f"--service-account-signing-key-file={self._keys / 'service-account.key'}",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            # Nobody reads the endpoints of the kubernetes service here, and 1.37 refuses a loopback address in them.
            "--endpoint-reconciler-type=none",
            f"--feature-gates={self._feature_gates}",
            f"--runtime-config={self._runtime_config}",
            "--v=1",
        )
        wait_until("the API server's certificate", self._has_certificate, timeout_s=30)
        self._write_kubeconfig(self.kubeconfig, ADMIN_TOKEN)
        wait_until(f"the API server (log: {self._api_server.log})", self._ready, timeout_s=60)

    def stop_api_server(self) -> None:
        """End the API server at once; etcd keeps what is stored."""
        assert self._api_server is not None
        self._api_server.kill()

    def compact(self) -> None:
        """Make etcd forget all history, so that watches from an old resource version get 410 Gone."""
        revision = self._etcd_call("range", {"key": "AA=="})["header"]["revision"]
        self._etcd_call("compaction", {"revision": revision, "physical": True})

    def stored(self, prefix: str) -> list[dict[str, Any]]:
        """The custom resources as they are in etcd, whose keys begin with this; such as ``/registry/rootport.dev/``."""
        first = prefix.encode()
        end = first[:-1] + bytes([first[-1] + 1])
        body = {"key": base64.b64encode(first).decode(), "range_end": base64.b64encode(end).decode()}
        return [json.loads(base64.b64decode(item["value"])) for item in self._etcd_call("range", body).get("kvs", ())]

    def _etcd_call(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._etcd_ports[0]}/v3/kv/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(body).encode()), timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait_for_crds(self, timeout_s: float = 60) -> None:
        """Wait until all CustomResourceDefinitions are served. ``kubectl wait`` fails on one that has no status yet."""

        def all_are_established() -> bool:
            found = json.loads(self.kubectl("get", "crd", "--output=json"))["items"]
            conditions = (item.get("status", {}).get("conditions") or () for item in found)
            return all(
                any(one["type"] == "Established" and one["status"] == "True" for one in had) for had in conditions
            )

        wait_until("all CustomResourceDefinitions are established", all_are_established, timeout_s=timeout_s)

    def kubectl(
        self,
        *argv: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        kubeconfig: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> str:
        """Run the real kubectl, as the administrator unless told, and return its standard output.

        Raises:
            KubectlError: With what kubectl said, unless ``check`` is False: then standard output and standard error are
                returned together.
        """
        deadline = time.monotonic() + timeout
        while True:
            result = subprocess.run(
                [self.binaries["kubectl"], f"--kubeconfig={kubeconfig or self.kubeconfig}", *argv],
                input=input,
                text=True,
                capture_output=True,
                check=False,
                timeout=timeout,
                env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
            )
            # For a moment after a CustomResourceDefinition changed, the API server refuses its objects with 429.
            if "storage is (re)initializing" not in result.stderr or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if not check:
            return result.stdout + result.stderr
        if result.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(map(str, argv))}: {result.stderr}{result.stdout}")
        return result.stdout

    def token_kubeconfig(self, name: str, token: str) -> Path:
        """A kubeconfig for somebody else, such as a service account."""
        path = self.folder / f"{name}.kubeconfig"
        self._write_kubeconfig(path, token)
        return path

    def service_account_kubeconfig(self, namespace: str, name: str, *, node: str | None = None) -> Path:
        """A kubeconfig with a fresh token of a service account, bound to a node where named.

        A token that is bound to a node carries ``authentication.kubernetes.io/node-name``, as the token of a pod on
        that node does.
        """
        bound = () if node is None else ("--bound-object-kind=Node", f"--bound-object-name={node}")
        token = self.kubectl("create", "token", name, f"--namespace={namespace}", "--duration=2h", *bound).strip()
        return self.token_kubeconfig(f"{name}-{node or 'anywhere'}", token)

    def stop(self) -> None:
        """End everything."""
        self.processes.stop()

    @property
    def api_server(self) -> Process:
        """The API server's process; after :meth:`start`."""
        assert self._api_server is not None
        return self._api_server

    @property
    def _certificate(self) -> Path:
        return self._keys / "apiserver.crt"  # the API server makes it: leaf and authority in one file

    def _start_etcd(self) -> None:
        client, peer = self._etcd_ports
        self._etcd = self.processes.start(
            "etcd",
            self.binaries["etcd"],
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",  # a test's data need not survive a power cut
            "--log-level=warn",
        )

    def _write_keys(self) -> None:
        key = self._keys / "service-account.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        public = self._keys / "service-account.pub"
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        lines = (f'{token},{user},{user},"{groups}"\n' for token, (user, groups) in self._tokens.items())
        (self._keys / "tokens.csv").write_text("".join(lines))

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        cluster = {"server": self.server, "certificate-authority": str(self._certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))

    def _has_certificate(self) -> bool:
        assert self._api_server is not None
        if not self._api_server.alive():
            raise RuntimeError(f"the API server ended: see {self._api_server.log}")
        return self._certificate.exists()

    def _ready(self) -> bool:
        if not self._has_certificate():
            return False
        try:
            context = ssl.create_default_context(cafile=str(self._certificate))  # it may be half written
            with urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            ).open(f"{self.server}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            return False
        except (urllib.error.URLError, OSError):
            return False


def _both(*options: str) -> str:
    return ",".join(filter(None, options))


class KubectlError(RuntimeError):
    """What kubectl said."""
