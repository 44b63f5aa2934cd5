"""Whether an allocation is valid, decided from the problem's JSON alone and without the allocator.

It knows nothing of any search: it looks at a finished result and lists what is wrong with it. Selectors are evaluated
by driver.cel, quantities read by driver.api.quantity; everything else is written a second time here, from the words of
k8s.io/api v0.36.3, resource/v1/types.go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device
from driver.cel import compile_selector
from driver.errors import InputError

__all__ = ["Offer", "offers", "selects", "violations"]

Json = dict[str, Any]


class Offer(NamedTuple):
    """A device that a node can use."""

    driver: str
    pool: str
    device: Json
    slice: Json

    @property
    def id(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.device["name"])

    @property
    def shared(self) -> bool:
        return self.device.get("allowMultipleAllocations") is True


def violations(problem: Json, node: str, result: list[Json]) -> list[str]:
    """Everything that is wrong with ``result`` on ``node``; nothing where it is valid."""
    if len(result) != len(problem["claims"]):
        return [f"{len(result)} results for {len(problem['claims'])} claims"]
    reachable = {offer.id: offer for offer in offers(problem, _node(problem, node))}
    found = list(_uses(problem, result, reachable))
    for claim, allocation in zip(problem["claims"], result, strict=True):
        found += _claim(problem, claim, allocation, reachable, _node(problem, node))
    return found


def offers(problem: Json, node: Json) -> list[Offer]:
    """The devices of complete, valid pools of the newest generation that reach ``node``, in Kubernetes' order."""
    pools: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for item in problem["slices"] or ():
        if _on(problem, "PartitionableDevices") or not (
            "perDeviceNodeSelection" in item["spec"] or item["spec"].get("sharedCounters")
        ):
            pools[item["spec"]["driver"], item["spec"]["pool"]["name"]].append(item)
    ordered: list[tuple[bool, tuple[str, str], list[Offer]]] = []
    for (driver, pool), slices in pools.items():
        # Kubernetes looks for a newer generation elsewhere only if what reaches the node is not the whole pool.
        near = [item for item in slices if item["spec"].get("sharedCounters") or _slice_reaches(item, node)]
        newest = max((_generation(item) for item in near), default=0)
        current = [item for item in near if _generation(item) == newest]
        if not current:
            continue
        wanted = current[0]["spec"]["pool"]["resourceSliceCount"]
        if len(current) != wanted and (
            any(_generation(item) > newest for item in slices)
            or sum(_generation(item) == newest for item in slices) != wanted
        ):
            continue
        current.sort(key=lambda item: item["metadata"]["name"])
        here = [Offer(driver, pool, device, item) for item in current for device in item["spec"].get("devices", ())]
        if len({offer.id for offer in here}) < len(here) or not _counters_known(current):
            continue
        last = any(offer.device.get("bindingConditions") for offer in here)
        usable = [offer for offer in here if _device_reaches(offer, node)]
        ordered.append((last, (driver, pool), usable))
    return [offer for _, _, found in sorted(ordered, key=lambda entry: entry[:2]) for offer in found]


def selects(problem: Json, request: Json, offer: Offer) -> bool:
    """Whether the selectors of the request and of its class are all true of the device."""
    classes = {item["metadata"]["name"]: item for item in problem["classes"] or ()}
    if offer.device.get("bindingConditions") and not _on(problem, "DeviceBindingAndStatus"):
        return False
    device = Device.model_validate(offer.device)
    selectors = classes[request["deviceClassName"]]["spec"].get("selectors", ()), request.get("selectors", ())
    for selector in (item for part in selectors for item in part):
        compiled = compile_selector(selector["cel"]["expression"], stored=True)
        if not compiled.matches(offer.driver, device):
            return False
    return True


def _uses(problem: Json, result: list[Json], reachable: dict[tuple[str, str, str], Offer]) -> Iterator[str]:
    """Nothing given twice, no capacity and no counter exceeded."""
    whole: Counter[tuple[str, str, str]] = Counter()
    consumed: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    in_use: set[tuple[str, str, str]] = set()
    new: set[tuple[str, str, str]] = set()
    before = [claim["status"]["allocation"] for claim in problem.get("allocatedClaims") or ()]
    for number, allocation in enumerate([*before, *result]):
        for item in allocation["devices"].get("results", ()):
            device = (item["driver"], item["pool"], item["device"])
            if item.get("adminAccess"):
                continue
            if number >= len(before) and device not in in_use:
                new.add(device)
            in_use.add(device)
            if "shareID" in item and _on(problem, "ConsumableCapacity"):
                for name, amount in item.get("consumedCapacity", {}).items():
                    consumed[device][name] += Quantity(amount).nano
            else:
                whole[device] += 1
                if whole[device] > 1 and number >= len(before):
                    yield f"{device} is given twice"
                if number >= len(before) and device in reachable and _is_shared(problem, reachable[device]):
                    yield f"{device} is shared, but given without a shareID"
    for device, amounts in consumed.items():
        capacity = reachable[device].device.get("capacity", {}) if device in reachable else {}
        for name, amount in amounts.items():
            if device in reachable and amount > Quantity(capacity[name]["value"]).nano:
                yield f"{device}: more than all of capacity {name} is given"
    yield from _counters(problem, in_use, new)


def _counters(problem: Json, in_use: set[tuple[str, str, str]], new: set[tuple[str, str, str]]) -> Iterator[str]:
    """Counters that the new devices consume, exceeded. (What others hold may be too much already.)"""
    touched: set[tuple[str, str, str, str]] = set()
    left: dict[tuple[str, str, str, str], int] = {}
    newest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for item in problem["slices"] or ():
        spec = item["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        newest[pool] = max(newest[pool], spec["pool"].get("generation", 0))
    current = [
        item["spec"]
        for item in problem["slices"] or ()
        if item["spec"]["pool"].get("generation", 0) == newest[item["spec"]["driver"], item["spec"]["pool"]["name"]]
    ]
    for spec in current:
        for counter_set in spec.get("sharedCounters", ()):
            for name, counter in counter_set["counters"].items():
                key = (spec["driver"], spec["pool"]["name"], counter_set["name"], name)
                left[key] = Quantity(counter["value"]).nano
    for spec in current:
        for device in spec.get("devices", ()):
            if (spec["driver"], spec["pool"]["name"], device["name"]) in in_use:
                for consumption in device.get("consumesCounters", ()):
                    for name, counter in consumption["counters"].items():
                        key = (spec["driver"], spec["pool"]["name"], consumption["counterSet"], name)
                        if key in left:
                            left[key] -= Quantity(counter["value"]).nano
                        if (*key[:2], device["name"]) in new:
                            touched.add(key)
    yield from (f"counter {key} is exceeded" for key, amount in left.items() if amount < 0 and key in touched)


def _claim(
    problem: Json, claim: Json, allocation: Json, reachable: dict[tuple[str, str, str], Offer], node: Json
) -> Iterator[str]:
    who = claim["metadata"]["name"]
    items = allocation["devices"].get("results", [])
    if len(items) > 32:
        yield f"{who}: {len(items)} devices, the limit is 32"
    ids = [(item["driver"], item["pool"], item["device"]) for item in items]
    missing = [device for device in ids if device not in reachable]
    if missing:
        yield f"{who}: {missing} cannot be reached"
        return
    yield from (
        f"{who}: {device} is in the claim twice"
        for device, times in Counter(ids).items()
        if times > 1
        if not reachable[device].shared
    )
    served: set[str] = set()
    for request in claim["spec"]["devices"].get("requests", ()):
        yield from (f"{who}, {problem_}" for problem_ in _request(problem, request, items, reachable))
        served |= {item["request"] for item in items if item["request"].split("/")[0] == request["name"]}
    for item in items:
        if item["request"] not in served:
            yield f"{who}: no request {item['request']}"
    for constraint in claim["spec"]["devices"].get("constraints", ()):
        yield from (f"{who}: {problem_}" for problem_ in _constraint(problem, constraint, items, reachable))
    selector = allocation.get("nodeSelector")
    if selector is not None and not _selector_matches(selector, node):
        yield f"{who}: the result's node selector excludes the node"


def _request(problem: Json, request: Json, items: list[Json], reachable: dict[Any, Offer]) -> Iterator[str]:
    name = request["name"]
    mine = [item for item in items if item["request"].split("/")[0] == name]
    if request.get("firstAvailable"):
        alternatives = {f"{name}/{part['name']}": part for part in request["firstAvailable"]}
        chosen = {item["request"] for item in mine}
        if len(chosen) != 1 or not chosen <= alternatives.keys():
            yield f"request {name}: served as {sorted(chosen)}"
            return
        wanted = alternatives[chosen.pop()]
    else:
        wanted = request["exactly"]
    given = [reachable[item["driver"], item["pool"], item["device"]] for item in mine]
    matching = [offer for offer in reachable.values() if _selects_or_not(problem, wanted, offer)]
    if wanted.get("allocationMode") == "All":
        fitting = {offer.id for offer in matching if _size_fits(problem, wanted, offer)}
        if not given or not {offer.id for offer in given} <= fitting:
            yield f"request {name}: all of {sorted(fitting)} are asked for"
        elif len(given) != len(fitting) and not any(offer.shared for offer in matching):
            yield f"request {name}: {len(given)} of {len(fitting)} devices"
    elif len(given) != (wanted.get("count", 0) or (0 if problem.get("raw") else 1)):
        yield f"request {name}: {len(given)} devices"
    for item, offer in zip(mine, given, strict=True):
        yield from (f"request {name}, {offer.id}: {wrong}" for wrong in _device(problem, wanted, item, offer))
        if offer not in matching:
            yield f"request {name}: {offer.id} is not selected"


def _device(problem: Json, wanted: Json, item: Json, offer: Offer) -> Iterator[str]:
    if item.get("adminAccess", False) != wanted.get("adminAccess", False):
        yield f"admin access is {item.get('adminAccess')}"
    if _on(problem, "DeviceTaints") and not all(_tolerated(taint, wanted) for taint in offer.device.get("taints", ())):
        yield "has a taint that is not tolerated"
    if not _size_fits(problem, wanted, offer):
        yield "is too small"
    if _is_shared(problem, offer):
        for capacity, amount in (wanted.get("capacity") or {}).get("requests", {}).items():
            if Quantity(item["consumedCapacity"][capacity]) < Quantity(amount):
                yield f"less of {capacity} than asked for"


def _is_shared(problem: Json, offer: Offer) -> bool:
    return offer.shared and _on(problem, "ConsumableCapacity")


def _selects_or_not(problem: Json, request: Json, offer: Offer) -> bool:
    """A device for which a selector fails was not looked at, so it cannot be selected."""
    try:
        return selects(problem, request, offer)
    except InputError:
        return False


def _size_fits(problem: Json, request: Json, offer: Offer) -> bool:
    asked = (request.get("capacity") or {}).get("requests", {})
    capacity = offer.device.get("capacity", {})
    return not _on(problem, "ConsumableCapacity") or all(
        name in capacity and Quantity(amount) <= Quantity(capacity[name]["value"]) for name, amount in asked.items()
    )


def _tolerated(taint: Json, request: Json) -> bool:
    if taint["effect"] not in {"NoSchedule", "NoExecute"}:
        return True
    return any(
        toleration.get("effect") in {None, "", taint["effect"]}
        and toleration.get("key") in {None, "", taint["key"]}
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in request.get("tolerations", ())
    )


def _constraint(problem: Json, constraint: Json, items: list[Json], reachable: dict[Any, Offer]) -> Iterator[str]:
    names = constraint.get("requests") or ()
    held = [item for item in items if not names or item["request"] in names or item["request"].split("/")[0] in names]
    kind = "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
    attribute = constraint[kind]
    values = [attribute_values(reachable[item["driver"], item["pool"], item["device"]], attribute) for item in held]
    if any(value is None for value in values):
        yield f"{kind} {attribute}: a device has no such attribute"
        return
    sets = [value for value in values if value is not None]
    if kind == "matchAttribute" and sets and not frozenset.intersection(*sets) and len(sets) > 1:
        yield f"{kind} {attribute}: no common value"
    if kind == "distinctAttribute" and len(frozenset[Any]().union(*sets)) < sum(map(len, sets)):
        yield f"{kind} {attribute}: same value twice"


def attribute_values(offer: Offer, attribute: str) -> frozenset[Any] | None:
    """The attribute's values with their type; None where the device has not got it."""
    attributes = offer.device.get("attributes", {})
    domain, _, short = attribute.partition("/")
    value = attributes.get(attribute, attributes.get(short) if domain == offer.driver else None)
    if value is None:
        return None
    ((kind, content),) = value.items()
    content = content if isinstance(content, list) else [content]
    return frozenset((kind.removesuffix("s"), str(entry)) for entry in content)


def _counters_known(slices: list[Json]) -> bool:
    sets = [part for item in slices for part in item["spec"].get("sharedCounters", ())]
    known = {(part["name"], counter) for part in sets for counter in part["counters"]}
    return len({part["name"] for part in sets}) == len(sets) and all(
        (consumption["counterSet"], counter) in known
        for item in slices
        for device in item["spec"].get("devices", ())
        for consumption in device.get("consumesCounters", ())
        for counter in consumption["counters"]
    )


def _generation(item: Json) -> int:
    return int(item["spec"]["pool"].get("generation", 0))


def _slice_reaches(item: Json, node: Json) -> bool:
    if item["spec"].get("perDeviceNodeSelection") is True:
        return any(_reaches(device, node) for device in item["spec"].get("devices", ()))
    return _reaches(item["spec"], node)


def _device_reaches(offer: Offer, node: Json) -> bool:
    return offer.slice["spec"].get("perDeviceNodeSelection") is not True or _reaches(offer.device, node)


def _reaches(where: Json, node: Json) -> bool:
    if where.get("nodeName"):
        return bool(where["nodeName"] == node["metadata"]["name"])
    return where.get("allNodes") is True or ("nodeSelector" in where and _selector_matches(where["nodeSelector"], node))


def _selector_matches(selector: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels", {})
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_holds(requirement, labels) for requirement in term.get("matchExpressions", ()))
        and all(_holds(requirement, fields) for requirement in term.get("matchFields", ()))
        for term in selector["nodeSelectorTerms"]
    )


def _holds(requirement: Json, values: dict[str, str]) -> bool:
    value, wanted = values.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number = int(value) if value is not None and value.lstrip("-").isdigit() else None
    if number is None:
        return False
    return number > int(wanted[0]) if requirement["operator"] == "Gt" else number < int(wanted[0])


def _node(problem: Json, name: str) -> Json:
    nodes = [problem["node"]] if problem.get("node") else problem["nodes"]
    return next(node for node in nodes if node["metadata"]["name"] == name)


def _on(problem: Json, feature: str) -> bool:
    return (problem.get("features") or {}).get(feature) is not False
