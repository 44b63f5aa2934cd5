"""Random courses of events: lost answers, late writes, leaders that change, pods that come, go and are bound."""

from __future__ import annotations

import copy
import random

import pytest

from driver.adapters.kubernetes.errors import ConflictError, NotFoundError
from tests.unit.controller.placement.placed_world import FakeServer, Leader, claim, node, pod, slice_of

GPUS = 4


class Course:
    """A cluster with one leader at a time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = FakeServer()
        for name in ("n1", "n2"):
            self.server.put("Node", node(name))
            self.server.put("ResourceSlice", slice_of(name, gpus=GPUS // 2))
        self.made = 0
        self.leader = Leader(self.server, "leader-0", pauses=False)
        self.leader.take_over()

    def pods(self) -> list[str]:
        return [key for kind, key in self.server.objects if kind == "Pod"]

    def claims_of(self, key: str) -> list[str]:
        return [f"team/{item['name']}" for item in self.server.objects["Pod", key]["spec"]["resourceClaims"]]

    def come(self) -> None:
        self.made += 1
        names = [f"c{self.made}-{number}" for number in range(self.chance.choice((1, 1, 2)))]
        for name in names:
            self.server.put("ResourceClaim", claim(name))
        self.server.put("Pod", pod(f"p{self.made}", *names))

    def go(self) -> None:
        """A pod is deleted; sometimes its claims as well, as a template's are. What it had reserved is freed."""
        if pods := self.pods():
            key = self.chance.choice(pods)
            claims = self.claims_of(key)
            self.server.delete("Pod", key)
            if self.chance.random() < 0.5:
                for item in claims:
                    self.server.delete("ResourceClaim", item)
                return
            for item in claims:
                stored = copy.deepcopy(self.server.objects["ResourceClaim", item])
                if stored.get("status", {}).get("reservedFor"):
                    self.server.put("ResourceClaim", stored | {"status": {}})  # as kube-controller-manager does

    def bind(self) -> None:
        """kube-scheduler reserves and binds a pod whose claims are allocated; or deallocates one of them."""
        for key in self.pods():
            wire = copy.deepcopy(self.server.objects["Pod", key])
            claims = [copy.deepcopy(self.server.objects["ResourceClaim", item]) for item in self.claims_of(key)]
            allocated = [item for item in claims if item.get("status", {}).get("allocation")]
            if wire["spec"].get("nodeName") or "schedulingGates" in wire["spec"] or len(allocated) < len(claims):
                continue
            pools = {item["status"]["allocation"]["devices"]["results"][0]["pool"] for item in claims}
            if len(pools) > 1 or self.chance.random() < 0.3:
                self.server.put("ResourceClaim", claims[0] | {"status": {}})
                continue
            for item in claims:
                item["status"]["reservedFor"] = [{"resource": "pods", "name": key, "uid": wire["metadata"]["uid"]}]
                self.server.put("ResourceClaim", item)
            wire["spec"]["nodeName"] = pools.pop()
            self.server.put("Pod", wire)

    def lose(self) -> None:
        self.server.lost = self.chance.choice((0, 1, 2))

    def hold_back(self) -> None:
        self.server.holds_back = self.chance.random() < 0.3

    def come_late(self) -> None:
        while self.server.late and self.chance.random() < 0.7:
            write = self.server.late.pop(self.chance.randrange(len(self.server.late)))
            try:
                write()
            except (ConflictError, NotFoundError):
                continue

    def look_away(self) -> None:
        if self.server.unseen:
            self.server.show()
        else:
            self.server.unseen = self.chance.random() < 0.3

    def change_leader(self) -> None:
        if self.chance.random() < 0.3:
            self.server.show()
            self.leader.leads = False
            self.server.leaders.remove(self.leader)
            self.leader.close()
            self.leader = Leader(self.server, f"leader-{self.made}-{self.chance.random()}", pauses=False)
            self.leader.take_over()

    def run(self, seconds: float = 1.0) -> None:
        self.leader.run(seconds)

    def check(self) -> None:
        held = self.server.holders()
        assert len(held) == len(set(held)), held


@pytest.mark.parametrize("seed", range(16))
def test_no_device_is_given_twice_and_all_that_fits_is_placed_in_the_end(seed: int) -> None:
    course = Course(seed)
    steps = (
        course.come,
        course.go,
        course.bind,
        course.lose,
        course.hold_back,
        course.come_late,
        course.look_away,
        course.change_leader,
    )
    try:
        for _ in range(60):
            course.chance.choice(steps)()
            course.run()
            course.check()
        course.server.lost, course.server.holds_back = 0, False
        course.server.show()
        for key in course.pods()[2:]:  # the two that stay fit, whatever they are
            claims = course.claims_of(key)
            course.server.delete("Pod", key)
            for item in claims:
                course.server.delete("ResourceClaim", item)
        course.run(300)  # longer than a node is avoided at first
        course.check()
        held = len(course.server.holders())
        assert held == sum(len(course.claims_of(key)) for key in course.pods()), "nothing is lost, and nothing is left"
        for write in course.server.late:
            with pytest.raises((ConflictError, NotFoundError)):
                write()
    finally:
        course.leader.close()
