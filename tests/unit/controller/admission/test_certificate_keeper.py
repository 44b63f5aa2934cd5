"""The webhooks' certificate is renewed whatever becomes of one of the configurations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controller.admission.certificate_keeper import SECRET, CertificateKeeper, KeeperOptions, KeptConfiguration
from controller.admission.rotation import Lifetimes
from controller.serving.certificates import ServingCertificate
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.resources import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from tests.unit.controller.conversion.stored_api import StoredAnswer

AT_ONCE = Lifetimes(renew_after=timedelta(0), settle=timedelta(0))
CHECK, CONVERT = (
    KeptConfiguration(resource=resource, name=name, failure_policy="Fail", component="webhook")
    for resource, name in ((VALIDATING_WEBHOOK_CONFIGURATIONS, "check"), (MUTATING_WEBHOOK_CONFIGURATIONS, "convert"))
)


class World:
    """A keeper of two configurations whose certificates are due as soon as they are issued, and an API server."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {SECRET: {"metadata": {"name": SECRET, "namespace": "system", "uid": "s"}}}
        for name in ("check", "convert"):
            hook = {"name": f"{name}.rootport.dev", "clientConfig": {}}
            self.objects[name] = {"metadata": {"name": name, "uid": name}, "webhooks": [hook]}
        self.status: dict[str, int] = {}
        self.used: list[ServingCertificate] = []
        self.keeper = CertificateKeeper(
            KubernetesApi(Connection(self, 5.0)),
            KeeperOptions(
                namespace="system",
                names=frozenset({"webhook.system.svc"}),
                configurations=(CHECK, CONVERT),
                lifetimes=AT_ONCE,
            ),
            use=self.used.append,
        )

    def send(self, request: Request, timeout_s: float) -> StoredAnswer:
        name = str(request.name)
        if status := self.status.get(name):
            return StoredAnswer(status, {"kind": "Status", "code": status, "message": "no"})
        if request.verb != "get":
            assert request.body is not None
            self.objects[name] = self.objects[name] | request.body
        return StoredAnswer(200, self.objects[name])

    def close(self) -> None:
        pass

    def checks(self, times: int) -> None:
        for _ in range(times):
            with pytest.raises(ApiServerError):
                self.keeper.check()


@pytest.mark.parametrize("absent", [{"convert"}, {"check"}, {"check", "convert"}])
def test_the_next_certificate_is_served_although_a_configuration_is_absent(absent: set[str]) -> None:
    world = World()
    world.keeper.check()
    world.status = dict.fromkeys(absent, 404)
    world.checks(2)  # the next one is issued, and served
    assert len(world.used) == 2


@pytest.mark.parametrize("status", [403, 500])
def test_it_waits_for_a_configuration_that_cannot_be_read(status: int) -> None:
    world = World()
    world.keeper.check()
    world.status = {"convert": status}
    world.checks(5)
    assert len(world.used) == 1
    world.status.clear()
    world.keeper.check()
    world.keeper.check()
    assert len(world.used) == 2


def test_nothing_of_a_configuration_that_is_absent_is_written() -> None:
    world = World()
    world.status = {"convert": 404}
    world.checks(1)
    assert world.objects["check"]["webhooks"][0]["clientConfig"]["caBundle"]
    assert not world.objects["convert"]["webhooks"][0]["clientConfig"]
