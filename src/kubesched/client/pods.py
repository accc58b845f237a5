"""The two calls for pods that are more than one request.

Owns what a binding says and how an outcome that is not known is settled, and how often a status is
patched. Never decides where a pod goes.
Upstream: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go,
pkg/scheduler/util/utils.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from kubesched.client.errors import (
    ApiError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TransportError,
)
from kubesched.client.lanes import Lane
from kubesched.client.resources import PODS
from kubesched.kit.clock import Clock

_STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
# Parity: client-go util/retry DefaultBackoff, v1.36: four tries, 10 ms, five times as long each.
_PATCH_DELAYS_S: Final = (0.01, 0.05, 0.25)
_SETTLE_FIRST_S: Final = 0.1
_SETTLE_MAX_S: Final = 5.0


class Sender(Protocol):
    """What sends: rest's Client."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        lane: Lane = Lane.OTHER,
    ) -> bytes: ...


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _BoundPod(msgspec.Struct):
    """What settles a binding: which pod it is and where it runs."""

    metadata: _Metadata
    spec: _Spec


_BOUND_POD: Final = msgspec.json.Decoder(_BoundPod)


async def bind_pod(
    client: Sender, clock: Clock, *, namespace: str, name: str, uid: str, node_name: str
) -> None:
    """Bind a pod to a node; an outcome that is not known is settled by reading the pod.

    Differs: upstream takes such an outcome for a failure, forgets the pod and may give its place
    away before the watch shows that it was bound.
    """
    path = PODS.path(namespace, name, "binding")
    body = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node_name},
        }
    )
    for is_again in (False, True):
        try:
            await client.request("POST", path, body=body, lane=Lane.BINDING)
        except (ApiError, TransportError) as error:
            if not (_is_open(error) or (is_again and isinstance(error, ConflictError))):
                raise
            pod = await _read(client, clock, namespace, name, error)
            if pod.metadata.uid == uid and pod.spec.node_name == node_name:
                return
            is_free = pod.metadata.uid == uid and not pod.spec.node_name
            if is_again or not is_free or not isinstance(error, TransportError):
                raise
        else:
            return


def _is_open(error: ApiError | TransportError) -> bool:
    """Return whether the server may have done what it was asked all the same."""
    return error.was_sent if isinstance(error, TransportError) else error.code >= 500


async def _read(
    client: Sender, clock: Clock, namespace: str, name: str, cause: Exception
) -> _BoundPod:
    """Read the pod, for as long as it takes: until then it keeps its place on the node."""
    delay_s = _SETTLE_FIRST_S
    while True:
        try:
            answer = await client.request("GET", PODS.path(namespace, name), lane=Lane.BINDING)
            return _BOUND_POD.decode(answer)
        except NotFoundError:
            raise
        except TransportError as error:
            if error.is_closed:
                raise
        except TooManyRequestsError:
            pass  # It said when to come again, and was asked as often as it makes sense at once.
        except ApiError as error:
            if error.code < 500:
                raise cause from error
        await clock.sleep(delay_s)
        delay_s = min(_SETTLE_MAX_S, delay_s * 2)


async def patch_pod_status(
    client: Sender,
    clock: Clock,
    *,
    namespace: str,
    name: str,
    patch: Mapping[str, Any],
    uid: str = "",
) -> None:
    """Patch the status of a pod, again where the server failed; an empty patch is not sent.

    Parity: pkg/scheduler/util/utils.go PatchPodStatus and Retriable, v1.36.
    """
    if not patch:
        return
    sent = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}} if uid else patch
    body = msgspec.json.encode(sent)
    path = PODS.path(namespace, name, "status")
    for delay_s in (*_PATCH_DELAYS_S, None):
        try:
            await client.request(
                "PATCH", path, body=body, content_type=_STRATEGIC_MERGE_PATCH, lane=Lane.WRITE
            )
        except (InternalServerError, ServiceUnavailableError, TransportError) as error:
            is_refused = not isinstance(error, TransportError) or error.is_refused
            if delay_s is None or not is_refused:
                raise
            await clock.sleep(delay_s)
        else:
            return
