"""Checks a claim's requests and constraints together: how many devices, and which of them belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.taints import refusing_taints
from driver.api.policies import may_be_extra
from driver.api.resource_v1 import DeviceTaint, ExactDeviceRequest, ResourceClaim
from driver.budget import check
from driver.config import small_amount
from driver.explain.known.vocabulary import CAPACITIES, OWN_ATTRIBUTES, Vocabulary, suggest
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import ATTRIBUTES, GPU_KINDS, NIC_KINDS, attributes_of
from driver.lint.ladder import ladders
from driver.lint.parts import Part, applies, constraint_attribute
from driver.lint.search_cost import QUICK, combinations
from driver.model.devices import DeviceType
from driver.model.managed_nodes import TAINT

__all__ = ["shape"]

_MANAGED: Final = DeviceTaint(key=TAINT, effect="NoSchedule")


def shape(claim: ResourceClaim, parts: Sequence[Part], vocabulary: Vocabulary) -> Iterator[LintFinding]:
    """Find everything that is wrong without looking at devices.

    Args:
        claim: The claim.
        parts: Its requests and alternatives.
        vocabulary: Of what is published, if that is known.

    Raises:
        SpentError: The budget in force is spent.
    """
    if not parts:
        yield LintFinding(
            code=LintCode.ASKS_FOR_NOTHING,
            severity=Severity.WARNING,
            path="spec.devices.requests",
            message="there is no request: the claim is allocated at once, and gives its pods no device",
            hint="write requests",
        )
    yield from _too_many(parts)
    yield from _small_amounts(parts)
    yield from _constraints(claim, parts, vocabulary)
    yield from _unpaired(claim, parts)
    yield from ladders(claim)
    yield from _redundant(claim, parts)
    yield from _partial_shares(parts)
    yield from _tolerating(parts)
    tried = combinations(claim, parts)
    if tried > QUICK:
        shown = f"{tried:,}" if tried < 10**9 else "more than a billion"
        yield LintFinding(
            code=LintCode.SLOW_SEARCH,
            severity=Severity.WARNING,
            path="spec.devices.requests",
            message=(
                f"on a node that has too few free devices for it, kube-scheduler tries up to {shown} combinations, one"
                " after the other, and gives up after 10 s"
            ),
            hint="ask for alike devices by count in one request; for pairs, rootport pairs --scope switch",
        )


def _too_many(parts: Sequence[Part]) -> Iterator[LintFinding]:
    least: dict[str, int] = {}
    for part in parts:
        # A request for all devices gets at least one.
        count = 1 if part.count is None else part.count
        least[part.request] = min(least.get(part.request, count), count)
    total = sum(least.values())
    if total > MAX_RESULTS:
        yield LintFinding(
            code=LintCode.TOO_MANY_DEVICES,
            severity=Severity.ERROR,
            path="spec.devices.requests",
            message=f"asks for {total} devices; one claim gets at most {MAX_RESULTS}",
            hint="split it into several claims of the pod",
        )


def _small_amounts(parts: Sequence[Part]) -> Iterator[LintFinding]:
    for part in parts:
        if part.spec.capacity is None or not part.kinds:
            continue
        for name, amount in part.spec.capacity.requests.items():
            meant = small_amount(name.removeprefix(f"{DRIVER_NAME}/"), amount)
            if meant is not None:
                yield LintFinding(
                    code=LintCode.SMALL_AMOUNT,
                    severity=Severity.WARNING,
                    path=f"{part.path}.capacity.requests[{name}]",
                    message=f"asks for {meant}",
                )


def _constraints(claim: ResourceClaim, parts: Sequence[Part], vocabulary: Vocabulary) -> Iterator[LintFinding]:
    for index, constraint in enumerate(claim.spec.devices.constraints):
        check()
        field = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
        path = f"spec.devices.constraints[{index}]"
        attribute = constraint_attribute(constraint)
        concerned = [part for part in parts if applies(constraint, part)]
        if not attribute or not concerned:
            continue
        lacking = [part for part in concerned if part.kinds and attribute not in attributes_of(part.kinds)]
        # A request with another alternative, or one that the constraint is not about, can still be served.
        named = {part.name for part in lacking}
        served = {part.request for part in parts if part.name not in named}
        lacking = [part for part in lacking if part.request not in served]
        if lacking and attribute not in vocabulary.attributes:
            by_policy = may_be_extra(attribute) and not vocabulary.attributes
            yield _lacking(f"{path}.{field}", attribute, lacking, by_policy=by_policy)
        elif len({part.request for part in concerned}) == 1 and all(part.count == 1 for part in concerned):
            yield LintFinding(
                code=LintCode.CONSTRAINT_WITHOUT_EFFECT,
                severity=Severity.WARNING,
                path=path,
                message=(
                    f"it is about one device alone (request {concerned[0].request}), so it says no more than that the"
                    f" device has {attribute}"
                ),
                hint="name the requests whose devices belong together, or leave requests out for all of them",
            )


def _lacking(path: str, attribute: str, lacking: Sequence[Part], *, by_policy: bool) -> LintFinding:
    known = frozenset.intersection(*(attributes_of(part.kinds) for part in lacking))
    meant = None if attribute in OWN_ATTRIBUTES else suggest(attribute, known)
    who = ", ".join(dict.fromkeys(part.name for part in lacking))
    unless = " unless the administrator's policies publish it" if by_policy else ""
    message = f"no device that request {who} can get has {attribute}, so the constraint never holds{unless}"
    of_others = sorted(kind.value for kind, names in ATTRIBUTES.items() if attribute in names)
    hint = f"did you mean {meant}?" if meant else f"devices of type {', '.join(of_others)} have it" if of_others else ""
    return LintFinding(
        code=LintCode.CONSTRAINT_ATTRIBUTE,
        severity=Severity.WARNING if by_policy else Severity.ERROR,
        path=path,
        message=message,
        hint=hint,
        names=frozenset({attribute} if may_be_extra(attribute) else ()),
    )


def _unpaired(claim: ResourceClaim, parts: Sequence[Part]) -> Iterator[LintFinding]:
    gpus = [part for part in parts if part.kinds and part.kinds <= GPU_KINDS]
    nics = [part for part in parts if part.kinds and part.kinds <= NIC_KINDS]
    # All devices of a node are near each other as well as they can be.
    if not gpus or not nics or all(part.count is None for part in (*gpus, *nics)):
        return
    for constraint in claim.spec.devices.constraints:
        if constraint.match_attribute is None:
            continue
        if any(applies(constraint, part) for part in gpus) and any(applies(constraint, part) for part in nics):
            return
    first = claim.spec.devices.requests.index(
        next(request for request in claim.spec.devices.requests if request.name == nics[0].request)
    )
    yield LintFinding(
        code=LintCode.UNPAIRED_DEVICES,
        severity=Severity.WARNING,
        path=f"spec.devices.requests[{first}]",
        message=(
            f"asks for a GPU ({gpus[0].request}) and an RDMA NIC ({nics[0].request}), but no constraint says that they"
            " are near each other: they may be on different sockets"
        ),
        hint="add a constraint with matchAttribute: rootport.dev/pcieSwitch, or use rootport pairs",
    )


def _redundant(claim: ResourceClaim, parts: Sequence[Part]) -> Iterator[LintFinding]:
    seen: dict[tuple[str, object], Part] = {}
    names = Counter(part.request for part in parts)
    for part in parts:
        if names[part.request] == 1:
            continue
        check()
        spec = part.spec.model_dump(exclude={"name"}, mode="json")
        earlier = seen.setdefault((part.request, repr(sorted(spec.items()))), part)
        # Alternatives that a constraint names one by one are rungs of a ladder.
        if earlier is not part and not _are_distinguished(claim, part, earlier):
            yield LintFinding(
                code=LintCode.REDUNDANT_ALTERNATIVE,
                severity=Severity.WARNING,
                path=part.path,
                message=f"alternative {part.name} asks for the same as {earlier.name}, so it is never taken",
                hint="leave it out",
            )


def _are_distinguished(claim: ResourceClaim, part: Part, earlier: Part) -> bool:
    """Whether a constraint or parameters are about one of two alternatives and not about the other."""
    devices = claim.spec.devices
    if any(applies(constraint, part) != applies(constraint, earlier) for constraint in devices.constraints):
        return True
    return any((part.name in config.requests) != (earlier.name in config.requests) for config in devices.config)


def _tolerating(parts: Sequence[Part]) -> Iterator[LintFinding]:
    for part in parts:
        # Who has admin access takes no device, and the admission policy lets it tolerate anything.
        if isinstance(part.spec, ExactDeviceRequest) and part.spec.admin_access:
            continue
        for index, toleration in enumerate(part.spec.tolerations):
            if not refusing_taints((_MANAGED,), (toleration,)):
                which = f"the taint {TAINT}" if toleration.key else f"every taint, and so {TAINT}"
                yield LintFinding(
                    code=LintCode.MANAGED_TAINT_TOLERATED,
                    severity=Severity.WARNING,
                    path=f"{part.path}.tolerations[{index}]",
                    message=(
                        f"tolerates {which}: Rootport's placement allocates the devices that have it, and"
                        " kube-scheduler must not; where placement is installed, the claim is refused"
                    ),
                    hint="leave it out" if toleration.key else "name the keys of the taints that are meant",
                )


def _partial_shares(parts: Sequence[Part]) -> Iterator[LintFinding]:
    for part in parts:
        if part.spec.capacity is None or not part.kinds:
            continue
        names = set(part.spec.capacity.requests)
        for kind, memory in ((DeviceType.GPU, "memory"), (DeviceType.GPU_RATIO, "memoryRatio")):
            # A name that is not known is a mistake for the memory, and another finding.
            known = names <= {name.partition("/")[2] for name in CAPACITIES[kind]}
            if part.kinds == {kind} and known and "core" in names and memory not in names:
                yield LintFinding(
                    code=LintCode.PARTIAL_SHARE,
                    severity=Severity.WARNING,
                    path=f"{part.path}.capacity.requests",
                    message="names core alone, so it takes all of the GPU's memory: nobody else gets a share",
                    hint=f"name {memory} as well; or name nothing, for a whole GPU",
                )
