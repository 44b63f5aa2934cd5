"""Makes the claims of one pod: for each container, for several that are allocated together, for init containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from driver.api.pod_templates import Steps
from driver.convert.claims import ClaimSpec, claim_of
from driver.convert.containers import ReadContainer
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, Near, NicRequest
from driver.errors import InputError

__all__ = ["PodClaim", "PodClaims"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim of the pod.

    Attributes:
        name: Its name in the pod's ``resourceClaims``.
        claim: What it asks for.
    """

    name: str
    claim: ClaimSpec


@dataclass(slots=True, kw_only=True)
class PodClaims:
    """The claims of a pod, as they are made.

    Attributes:
        taken: The names of claims that the pod has.
        made: The new ones.
        uses: As in :class:`ConvertedPod`.
        requests: What each new claim was made for.
        ended: The claims that nobody uses while init containers run: those of sidecars are in use.
    """

    taken: set[str]
    made: list[PodClaim] = field(default_factory=list)
    uses: dict[Steps, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    requests: list[DeviceRequest] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    def add(self, read: Sequence[ReadContainer]) -> Iterator[Finding]:
        """Make the claims of all containers; yield what is to be said of them."""
        main = [each for each in read if not each.container.is_init]
        if _spans(main):
            together = _together(main)
            if together is not None and self._add_for_all(together, main):
                yield from self._who_sees_all(main)
            else:
                yield _apart(main)
        for each in main:
            if each.container.steps not in self.uses:
                self._add_for_one(each)
        self.ended = {claim.name for claim in self.made} - {
            name for each in main if _is_sidecar(each) for name, _ in self.uses[each.container.steps]
        }
        for each in read:
            if each.container.is_init:
                yield self._add_for_init(each)

    def _add_for_one(self, each: ReadContainer) -> None:
        if each.claim is not None:
            self.uses[each.container.steps] = ((self._make(each.claim, each.request), ""),)

    def _add_for_all(self, together: DeviceRequest, main: Sequence[ReadContainer]) -> bool:
        """Make one claim for GPUs and NICs of different containers; false if its requests cannot be divided so."""
        try:
            claim = claim_of(together)
        except InputError:
            return False
        gpus, nics, fpgas = iter(claim.gpus), list(claim.nics), iter(claim.fpgas)
        total = sum(gpu.count for gpu in together.gpus)
        each_has = total // len(claim.gpus)
        if any(gpu.count % each_has for each in main for gpu in each.request.gpus):
            return False
        name = self._make(claim, together)
        for each in main:
            requests = [next(gpus) for gpu in each.request.gpus for _ in range(gpu.count // each_has)]
            requests += nics if each.request.nics else []
            requests += [next(fpgas) for _ in each.request.fpgas]
            # A container has one entry for each claim: the list's key is the claim's name (k8s.io/api, core/v1).
            self.uses[each.container.steps] = ((name, requests[0] if len(requests) == 1 else ""),)
        return True

    def _who_sees_all(self, main: Sequence[ReadContainer]) -> Iterator[Finding]:
        for each in main:
            ((claim, request),) = self.uses[each.container.steps]
            if not request:
                part = each.container.parts[0]
                text = (
                    f"claim {claim} is the pod's, for what is allocated together; a container can name one request of a"
                    " claim or all, so this one sees all of its devices"
                )
                yield each.container.finding(part.held[0], part.dialect.name, Outcome.NOTED, text)

    def _add_for_init(self, each: ReadContainer) -> Finding:
        steps = each.container.steps
        part = each.container.parts[0]
        for claim, request in zip(self.made, self.requests, strict=True):
            if claim.name in self.ended and _covers(request, each.request):
                self.uses[steps] = ((claim.name, ""),)
                text = f"an init container: uses claim {claim.name}, as it would use a container's devices before it"
                return each.container.finding(part.held[0], part.dialect.name, Outcome.CONVERTED, text)
        self._add_for_one(each)
        name = self.uses[steps][0][0]
        self.ended.add(name)
        text = (
            f"an init container that asks for more than any container: claim {name} is its own, and keeps its devices"
            " as long as the pod lives; to free them, do that work in another pod"
        )
        return each.container.finding(part.held[0], part.dialect.name, Outcome.NOTED, text)

    def _make(self, claim: ClaimSpec, request: DeviceRequest) -> str:
        base = "rdma" if request.nics else "fpga"
        if request.gpus:
            base = "mig" if all(gpu.profile for gpu in request.gpus) else "gpu"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}-{number}", number + 1
        self.taken.add(name)
        self.made.append(PodClaim(name=name, claim=claim))
        self.requests.append(request)
        return name


def _is_sidecar(each: ReadContainer) -> bool:
    return each.container.steps[-2] == "initContainers" and not each.container.is_init


def _spans(main: Sequence[ReadContainer]) -> bool:
    """Whether GPUs of some containers and NICs of others are allocated together."""
    requests = [each.request for each in main if each.spans]
    return (
        any(request.gpus for request in requests)
        and any(request.nics for request in requests)
        and not any(request.gpus and request.nics for request in requests)
    )


def _apart(main: Sequence[ReadContainer]) -> Finding:
    """Return the finding that what was to be allocated together is in claims of its own."""
    each = next(each for each in main if each.spans and each.request.nics)
    part = each.container.parts[0]
    text = (
        "GPUs and NICs of different containers near to each other are written as one claim only for GPUs that are alike"
        " and one container with NICs: write the claim with `rootport pairs`"
    )
    outcome = Outcome.NOTED if each.request.near is Near.PREFERRED else Outcome.REFUSED
    return each.container.finding(part.held[0], part.dialect.name, outcome, text)


def _together(main: Sequence[ReadContainer]) -> DeviceRequest | None:
    """Return what is in one claim of the pod; None if no claim can say it."""
    requests = [each.request for each in main]
    gpus = [gpu for request in requests for gpu in request.gpus]
    nics = [nic for request in requests for nic in request.nics]
    if not all(each.spans for each in main) or len(nics) != 1 or len({replace(gpu, count=1) for gpu in gpus}) != 1:
        return None
    return DeviceRequest(
        gpus=(replace(gpus[0], count=sum(gpu.count for gpu in gpus)),),
        nics=tuple(nics),
        fpgas=tuple(fpga for request in requests for fpga in request.fpgas),
        near=requests[0].near,
        nic_each=any(request.nic_each for request in requests),
    )


def _covers(held: DeviceRequest, asked: DeviceRequest) -> bool:
    """Whether whoever has the one needs nothing more for the other."""
    return (
        all(any(_covers_gpu(own, gpu) for own in held.gpus) for gpu in asked.gpus)
        and all(any(_covers_alike(own, nic) for own in held.nics) for nic in asked.nics)
        and all(any(_covers_alike(own, fpga) for own in held.fpgas) for fpga in asked.fpgas)
    )


def _covers_gpu(own: GpuRequest, gpu: GpuRequest) -> bool:
    if own.profile != gpu.profile or own.count < gpu.count or not set(gpu.together) <= set(own.together):
        return False
    if gpu.vendor not in ("", own.vendor) or not set(gpu.wanted) <= set(own.wanted):
        return False
    if not own.is_share:
        return True
    # Shares that are isolated in another way, or whose memory is written in another unit, cannot be compared.
    comparable = gpu.is_share and own.strategy == gpu.strategy and (own.memory is None) == (gpu.memory is None)
    amounts = ((own.core, gpu.core), (own.memory, gpu.memory), (own.memory_percent, gpu.memory_percent))
    return comparable and all((has or 0) >= (asks or 0) for has, asks in amounts)


def _covers_alike(own: NicRequest | FpgaRequest, asked: NicRequest | FpgaRequest) -> bool:
    if own.count == 0:
        return replace(asked, count=0) == own
    return asked.count > 0 and own.count >= asked.count and replace(asked, count=own.count) == own
