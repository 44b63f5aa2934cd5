"""NodePrepareResources and NodeUnprepareResources, in both versions of the DRA protocol.

Source: k8s.io/kubelet v0.36.3, pkg/apis/dra/v1 and v1beta1. The versions differ in ``Device.share_id`` alone, which is
in v1 only: what v1beta1 asks is answered as v1, and the share is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from typing import Final, TypeVar

from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from driver.plan import PreparedDevice
from kubeletplugin.grpc_server.answers import MAX_CLAIMS, answer_each, error_text
from kubeletplugin.operation import Operation, log_line
from kubeletplugin.protocol import dra_v1_pb2 as v1
from kubeletplugin.protocol import dra_v1beta1_pb2 as v1beta1
from kubeletplugin.rpc import RpcError, Status
from kubeletplugin.service import ClaimService

__all__ = ["DraPlugin", "DraPluginBeta"]

_LOG: Final = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class DraPlugin:
    """Service ``k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin``.

    Args:
        claims: Prepares and unprepares.
    """

    def __init__(self, claims: ClaimService) -> None:
        self._claims = claims

    def NodePrepareResources(  # noqa: N802 - the protocol's name
        self, request: v1.NodePrepareResourcesRequest
    ) -> Generator[v1.NodePrepareResourcesResponse]:
        """Prepare every claim of the request; each has its own devices or its own error."""
        with Operation("NodePrepareResources").running() as operation:
            asked = _asked(request.claims, operation)
            answers = answer_each(asked, self._claims.prepare)
            _log_failures(asked, answers, operation)
            response = v1.NodePrepareResourcesResponse()
            for uid, answer in answers.items():
                entry = response.claims[uid]
                if isinstance(answer, RootportError):
                    entry.error = error_text(answer)
                else:
                    entry.devices.extend(map(_device, answer.devices))
            yield response

    def NodeUnprepareResources(  # noqa: N802 - the protocol's name
        self, request: v1.NodeUnprepareResourcesRequest
    ) -> Generator[v1.NodeUnprepareResourcesResponse]:
        """Undo every claim of the request; each is undone or has its own error."""
        with Operation("NodeUnprepareResources").running() as operation:
            asked = _asked(request.claims, operation)
            answers = answer_each(asked, self._claims.unprepare)
            _log_failures(asked, answers, operation)
            response = v1.NodeUnprepareResourcesResponse()
            for uid, answer in answers.items():
                # Reading makes the entry: the kubelet wants one for every claim, even an empty one.
                entry = response.claims[uid]
                if answer is not None:
                    entry.error = error_text(answer)
            yield response


class DraPluginBeta:
    """Service ``k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin``, for kubelets before 1.34.

    Args:
        plugin: Answers the calls, as v1.
    """

    def __init__(self, plugin: DraPlugin) -> None:
        self._plugin = plugin

    def NodePrepareResources(  # noqa: N802 - the protocol's name
        self, request: v1beta1.NodePrepareResourcesRequest
    ) -> Generator[v1beta1.NodePrepareResourcesResponse]:
        """As v1, without shares."""
        asked = v1.NodePrepareResourcesRequest.FromString(request.SerializeToString())
        for answer in self._plugin.NodePrepareResources(asked):
            for entry in answer.claims.values():
                for device in entry.devices:
                    device.ClearField("share_id")
            yield v1beta1.NodePrepareResourcesResponse.FromString(answer.SerializeToString())

    def NodeUnprepareResources(  # noqa: N802 - the protocol's name
        self, request: v1beta1.NodeUnprepareResourcesRequest
    ) -> Generator[v1beta1.NodeUnprepareResourcesResponse]:
        """As v1."""
        asked = v1.NodeUnprepareResourcesRequest.FromString(request.SerializeToString())
        for answer in self._plugin.NodeUnprepareResources(asked):
            yield v1beta1.NodeUnprepareResourcesResponse.FromString(answer.SerializeToString())


def _asked(claims: Iterable[v1.Claim], operation: Operation) -> tuple[ClaimReference, ...]:
    asked = tuple(ClaimReference(namespace=claim.namespace, name=claim.name, uid=claim.uid) for claim in claims)
    operation.note(claims=len(asked))
    if len(asked) > MAX_CLAIMS:
        message = f"the call names {len(asked)} claims, at most {MAX_CLAIMS} are answered at once"
        raise RpcError(Status.INVALID_ARGUMENT, message)
    return asked


def _log_failures(
    asked: Iterable[ClaimReference], answers: Mapping[str, _Answer | RootportError], operation: Operation
) -> None:
    claims = {claim.uid: claim for claim in asked}
    failures = {uid: answer for uid, answer in answers.items() if isinstance(answer, RootportError)}
    operation.note(failed=len(failures))
    for uid, error in failures.items():
        claim = claims[uid]
        fields = {"namespace": claim.namespace, "name": claim.name, "uid": uid, "error": error_text(error)}
        _LOG.warning("%s", log_line(event="claim-failed", call=operation.name, op=operation.id, **fields))


def _device(device: PreparedDevice) -> v1.Device:
    return v1.Device(
        # The kubelet knows no subrequests here: "request/subrequest" is the request's.
        request_names=dict.fromkeys(name.partition("/")[0] for name in device.request_names),
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_device_ids,
        share_id=device.share_id,
    )
