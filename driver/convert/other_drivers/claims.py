"""Converts ResourceClaims, ResourceClaimTemplates and DeviceClasses that were written for other DRA drivers.

Their requests get Rootport's classes, their selectors and constraints Rootport's attributes, their configuration
Rootport's kinds. Requests of other drivers stay in the claim as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import API_VERSION
from driver.convert.findings import Conversion, Outcome, worst
from driver.convert.other_drivers.names import DOMAINS, DRANET, equal_of
from driver.convert.other_drivers.parameters import translate_parameters
from driver.convert.other_drivers.report import Report
from driver.convert.other_drivers.requests import CANDIDATES, Target, driver_of, translate_request, translate_selectors
from driver.model.devices import DeviceType

__all__ = ["convert_claim", "is_claim", "is_generated"]

_GROUP: Final = "resource.k8s.io/"
_OLD_VERSION: Final = "resource.k8s.io/v1beta1"
_DEVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec", "devices"),
    "ResourceClaimTemplate": ("spec", "spec", "devices"),
}
_CLASS: Final = "DeviceClass"
_OF_A_REQUEST: Final = ("name", "exactly", "firstAvailable")
_MAX_ITEMS: Final = 256
"""Far more requests, constraints or selectors than the API server takes."""


def is_claim(data: Mapping[str, Any]) -> bool:
    """Whether an object is of a kind that :func:`convert_claim` converts."""
    version, kind = data.get("apiVersion"), data.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return False
    return version.startswith(_GROUP) and (kind in _DEVICES or kind == _CLASS)


def convert_claim(data: Mapping[str, Any]) -> Conversion:
    """Return a claim, a template or a DeviceClass for Rootport.

    Args:
        data: The object, for which :func:`is_claim` holds; not changed. A claim that a template made is left as it is,
            because its template is what has to change.
    """
    report = Report()
    if data["kind"] == _CLASS:
        changed = _device_class(data, report)
    elif is_generated(data):
        return Conversion(object=data)
    else:
        changed = _claim(data, report)
    findings = tuple(report.findings)
    if report.is_refused or changed is None or not findings:
        return Conversion(object=data, findings=findings, outcome=worst(findings))
    return Conversion(object={**changed, "apiVersion": API_VERSION}, findings=findings, outcome=worst(findings))


def is_generated(data: Mapping[str, Any]) -> bool:
    """Whether a claim was made from a template for a pod: its template is what has to change."""
    metadata = data.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    listed = owners if isinstance(owners, list) else []
    return any(isinstance(owner, Mapping) and owner.get("kind") == "Pod" for owner in listed)


def _claim(data: Mapping[str, Any], report: Report) -> dict[str, Any] | None:
    steps = _DEVICES[data["kind"]]
    devices: Any = data
    for step in steps:
        devices = devices.get(step) if isinstance(devices, Mapping) else None
    if not isinstance(devices, Mapping):
        return None
    written = _replaced(data, steps, _Claim(data["apiVersion"] == _OLD_VERSION, ".".join(steps), report).write(devices))
    if isinstance(data.get("status"), Mapping) and data["status"].get("allocation"):
        text = "the claim has devices already: delete it and create it again, for a claim's spec cannot be changed"
        report.add("status.allocation", "", Outcome.NOTED, text)
        written.pop("status", None)
    return written


def _replaced(data: Mapping[str, Any], steps: Sequence[str], value: Mapping[str, Any]) -> dict[str, Any]:
    first, *others = steps
    return {**data, first: _replaced(data[first], others, value) if others else value}


def _list(value: object) -> list[Any]:
    return value[:_MAX_ITEMS] if isinstance(value, list) else []


class _Claim:
    """Writes ``devices`` of a claim's spec."""

    def __init__(self, is_old: bool, path: str, report: Report) -> None:  # noqa: FBT001 - one caller
        self._is_old = is_old
        self._path = path
        self._report = report
        self._targets: dict[str, Target | None] = {}

    def write(self, devices: Mapping[str, Any]) -> dict[str, Any]:
        written = dict(devices)
        listed = _list(devices.get("requests"))
        written["requests"] = [self._request(item, index) for index, item in enumerate(listed)]
        if not any(self._targets.values()) and not self._has_config(devices):
            return written
        if "constraints" in devices:
            items = enumerate(_list(devices["constraints"]))
            kept = [entry for index, item in items if (entry := self._constraint(item, index)) is not None]
            written.pop("constraints")
            written |= {"constraints": kept} if kept else {}
        config = self._config(_list(devices.get("config")))
        written.pop("config", None)
        return written | ({"config": config} if config else {})

    def _request(self, item: Any, index: int) -> Any:
        path = f"{self._path}.requests[{index}]"
        if not isinstance(item, Mapping):
            return item
        name = str(item.get("name", ""))
        if self._is_old and "deviceClassName" in item:
            fields = {key: value for key, value in item.items() if key not in _OF_A_REQUEST}
            made, self._targets[name] = translate_request(fields, path, self._report)
            return {"name": item.get("name"), "exactly": made}
        if isinstance(item.get("exactly"), Mapping):
            made, self._targets[name] = translate_request(item["exactly"], f"{path}.exactly", self._report)
            return {**item, "exactly": made}
        alternatives: list[Any] = []
        for place, each in enumerate(_list(item.get("firstAvailable"))):
            if isinstance(each, Mapping):
                made, target = translate_request(each, f"{path}.firstAvailable[{place}]", self._report)
                self._targets[f"{name}/{each.get('name', '')}"] = target
                alternatives.append(made)
        return {**item, "firstAvailable": alternatives} if alternatives else item

    def _named(self, names: object) -> dict[str, Target | None]:
        """Return the requests that a list of names stands for: all of them if it is empty, a whole list by its name."""
        wanted = {str(name) for name in _list(names)}
        if not wanted:
            return self._targets
        return {
            name: target for name, target in self._targets.items() if name in wanted or name.partition("/")[0] in wanted
        }

    def _constraint(self, item: Any, index: int) -> dict[str, Any] | None:
        if not isinstance(item, Mapping):
            return None
        written, path = dict(item), f"{self._path}.constraints[{index}]"
        targets = self._named(item.get("requests"))
        for kind in ("matchAttribute", "distinctAttribute"):
            attribute = item.get(kind)
            if not isinstance(attribute, str) or not any(targets.values()):
                continue
            name = self._attribute(attribute, targets.values(), f"{path}.{kind}")
            if name == "":
                return None
            written[kind] = name
        return written

    def _attribute(self, attribute: str, targets: Iterable[Target | None], path: str) -> str:
        """Return Rootport's name of an attribute that a constraint compares; empty if all devices have the same."""
        domain = attribute.partition("/")[0]
        equals = [None if target is None else equal_of("attributes", attribute, target.kind) for target in targets]
        known = [equal for equal in equals if equal is not None]
        refused = next((equal.refused for equal in known if equal.refused), "")
        names = {equal.name for equal in known}
        if not refused and None in equals and (domain in DOMAINS or names != {attribute}):
            refused = "a request of another driver is under the constraint too: write a constraint for Rootport's alone"
        if not refused and len(names) != 1:
            refused = "Rootport's devices of these requests have no one attribute for it"
        if refused:
            self._report.add(path, attribute, Outcome.REFUSED, refused)
            return attribute
        [name] = names
        for note in sorted({equal.note for equal in known if equal.note}):
            self._report.add(path, attribute, Outcome.NOTED, note)
        if not name:
            self._report.add(
                path, attribute, Outcome.CONVERTED, "left out: it is the same for all devices of the class"
            )
        elif name != attribute:
            self._report.add(path, attribute, Outcome.CONVERTED, name)
        return name

    def _has_config(self, devices: Mapping[str, Any]) -> bool:
        return any(_driver(item) in DOMAINS for item in _list(devices.get("config")))

    def _config(self, items: Sequence[Any]) -> list[Any]:
        made: list[Any] = []
        configured: set[str] = set()
        for index, item in enumerate(items):
            driver = _driver(item)
            if driver not in DOMAINS:
                made.append(item)
                continue
            path = f"{self._path}.config[{index}].opaque.parameters"
            entry = self._parameters(item, driver, path, configured)
            if entry is not None:
                made.append(entry)
        nics = [name for name, target in self._targets.items() if target is not None and target.driver == DRANET]
        bare = [name for name in nics if name not in configured]
        if bare:
            text = (
                "dranet moves the interface of each NIC into the pod, and so does `interface: {}`, for which the node"
                " needs Rootport's CNI plugin; leave the entry out for programs that need the device nodes alone"
            )
            self._report.add(f"{self._path}.config", "", Outcome.NOTED, text)
            made.append(_entry(bare, {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig", "interface": {}}))
        return made

    def _parameters(self, item: Mapping[str, Any], driver: str, path: str, configured: set[str]) -> Any:
        targets = {
            name: target
            for name, target in self._named(item.get("requests")).items()
            if target is not None and target.driver == driver
        }
        most = max((target.most_devices or _MAX_ITEMS for target in targets.values()), default=1)
        result = translate_parameters(driver, item["opaque"].get("parameters"), path, most_devices=most)
        for error in result.errors:
            self._report.add(error.path, "", Outcome.REFUSED, error.message)
        for note in result.notes:
            self._report.add(path, driver, Outcome.NOTED, note)
        fitting = [name for name, target in targets.items() if _fits(result.kind, target.kind)]
        configured.update(fitting)
        if result.errors:
            return None
        if result.written is None or not fitting:
            self._report.add(path, driver, Outcome.CONVERTED, "left out: Rootport's default says the same")
            return None
        self._report.add(path, driver, Outcome.CONVERTED, result.kind)
        return _entry(fitting, result.written)


def _entry(requests: Sequence[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"requests": list(requests), "opaque": {"driver": DRIVER_NAME, "parameters": dict(parameters)}}


def _fits(kind: str, device: DeviceType) -> bool:
    of = {"GpuConfig": (DeviceType.GPU,), "MigConfig": (DeviceType.MIG,)}
    return device in of.get(kind, (DeviceType.RDMA, DeviceType.RDMA_VF))


def _driver(item: Any) -> str:
    opaque = item.get("opaque") if isinstance(item, Mapping) else None
    driver = opaque.get("driver") if isinstance(opaque, Mapping) else None
    return driver if isinstance(driver, str) else ""


def _device_class(data: Mapping[str, Any], report: Report) -> dict[str, Any] | None:
    """Return a DeviceClass that selects Rootport's devices, if it selected those of a known driver."""
    spec = data.get("spec")
    if not isinstance(spec, Mapping):
        return None
    selectors = _list(spec.get("selectors"))
    driver = driver_of(selectors)
    if not driver:
        return None
    written = dict(spec)
    kind = translate_selectors(selectors, CANDIDATES[driver], "spec.selectors", written, report)
    config: list[Any] = []
    for index, item in enumerate(_list(spec.get("config"))):
        path = f"spec.config[{index}].opaque.parameters"
        if _driver(item) != driver or kind is None:
            config.append(item)
            continue
        result = translate_parameters(driver, item["opaque"].get("parameters"), path, most_devices=1)
        for error in result.errors:
            report.add(error.path, "", Outcome.REFUSED, error.message)
        for note in result.notes:
            report.add(path, driver, Outcome.NOTED, note)
        if result.written is not None:
            config.append({"opaque": {"driver": DRIVER_NAME, "parameters": result.written}})
            report.add(path, driver, Outcome.CONVERTED, result.kind)
    written.pop("config", None)
    return {**data, "spec": written | ({"config": config} if config else {})}
