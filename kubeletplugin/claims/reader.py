"""Reads a claim from the API server; every way in which that fails has an error that says whose fault it is.

Kubernetes hands the kubelet's plugin a claim's name and UID only: reading the object is the plugin's part
(k8s.io/kubelet v0.36.3, dra v1).
"""

from __future__ import annotations

from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, JsonObject
from driver.api.allocated_claim import AllocatedClaim
from driver.api.claim_reference import ClaimReference
from driver.api.strict import StrictError, read
from driver.errors import InputError, NodeError
from kubeletplugin.claims.preparer import ClaimGoneError

__all__ = ["ClaimReader", "allocated_claim"]

_ERRORS_SHOWN: Final = 3


class ClaimReader:
    """Reads claims; safe to call from several threads where the client is.

    Args:
        api: The client.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def __call__(self, reference: ClaimReference) -> AllocatedClaim:
        """Return the claim with that name and that UID.

        Raises:
            ClaimGoneError: As for :meth:`stored`.
            InputError: It is no claim as this version of Rootport knows it.
            NodeError: As for :meth:`stored`.
        """
        return allocated_claim(reference, self.stored(reference))

    def stored(self, reference: ClaimReference) -> JsonObject:
        """Return the claim with that name and that UID as the API server has it.

        Raises:
            ClaimGoneError: The API server says that there is none: deleted, or recreated under the same name.
            NodeError: The API server does not answer, or does not show it.
        """
        try:
            found = self._api.get(RESOURCE_CLAIMS, reference.name, namespace=reference.namespace)
        except NotFoundError as error:
            # An API version that is not served is a 404 as well; only this one names the object (NewNotFound in
            # k8s.io/apimachinery v0.36.3, pkg/api/errors).
            if f'"{reference.name}" not found' not in error.message:
                raise self._refused(reference, error) from error
            raise ClaimGoneError(
                f"claim {reference} was deleted",
                hint="delete the pod, or wait until it is; there is nothing to prepare",
            ) from error
        except UnavailableError as error:
            raise NodeError(
                f"claim {reference} cannot be read, since the API server is away: {error.message}",
                hint="nothing was prepared; the kubelet retries",
            ) from error
        except ApiServerError as error:
            raise self._refused(reference, error) from error
        uid = str(found["metadata"].get("uid") or "")
        if uid != reference.uid:
            raise ClaimGoneError(
                f"claim {reference} was deleted and recreated under the same name: it now has UID {uid}",
                hint="delete the pod that still names the former claim",
            )
        return found

    @staticmethod
    def _refused(reference: ClaimReference, error: ApiServerError) -> NodeError:
        hint = error.hint or "check that the plugin's service account may get resourceclaims in resource.k8s.io"
        return NodeError(f"claim {reference} cannot be read: {error.message}", hint=hint)


def allocated_claim(reference: ClaimReference, stored: JsonObject) -> AllocatedClaim:
    """Return a claim as it was read from the API server, as far as preparing it needs it.

    Raises:
        InputError: It is no claim as this version of Rootport knows it.
    """
    try:
        # A newer API server may have fields that are not known here.
        return read(AllocatedClaim, stored, ignore_unknown=True)
    except StrictError as error:
        shown = "; ".join(map(str, error.errors[:_ERRORS_SHOWN]))
        raise InputError(
            f"claim {reference}: the API server's answer is no resource.k8s.io/v1 ResourceClaim: {shown}",
            hint="is this Rootport made for this version of Kubernetes?",
        ) from error
