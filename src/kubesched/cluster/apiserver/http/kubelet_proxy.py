"""Proxies logs, exec, attach and port-forward to kubelets.

Checks the request and finds the kubelet's address; kubelet_connections opens the connection.
Upstream: pkg/registry/core/pod/strategy.go LogLocation and streamLocation,
pkg/registry/core/pod/rest/{log,subresources}.go, pkg/kubelet/client/kubelet_client.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from kubesched.api.times import parse_time, time_text
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    ApiError,
    Problem,
    bad_request,
    forbidden_field,
    internal,
    invalid,
    invalid_object,
)
from kubesched.cluster.apiserver.http.request_info import is_true
from kubesched.cluster.apiserver.http.request_types import ResourceRequest, ResourceResponse
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.verbs.context import Context
from kubesched.cluster.apiserver.verbs.reading import get

# Parity: cmd/kube-apiserver/app/options/options.go KubeletConfig, v1.36.
_ADDRESS_TYPES: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_DEFAULT_PORT: Final = 10250
_PATHS: Final = {"exec": "exec", "attach": "attach", "portforward": "portForward"}
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_CONTAINER_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class KubeletCall:
    """A request to a kubelet: address and path."""

    url: str
    is_log: bool
    """Whether the response is a log, as opposed to a bidirectional stream."""
    name: str
    """Name of the pod."""


def is_for_kubelet(resource: Resource, below: str) -> bool:
    """Return whether a subresource is served by a kubelet."""
    return (resource.group, resource.resource) == ("", "pods") and below in {"log", *_PATHS}


def kubelet_call(
    context: Context, request: ResourceRequest, resource: Resource
) -> KubeletCall | ResourceResponse:
    """Return the request to the pod's kubelet; an empty response if there is no log yet."""
    info = request.info
    is_log = info.subresource == "log"
    query = _log_query(request) if is_log else {}
    pod = context.document(
        resource, get(context, resource, request.namespace_for(resource), info.name, "")
    )
    path = f"{info.namespace}/{info.name}"
    if info.subresource != "portforward":
        path += f"/{_container(pod, info.name, request.query.get('container', ''))}"
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        if is_log:
            # Parity: pkg/registry/core/pod/rest/log.go: a pod without a node has no log yet.
            return ResourceResponse(b"", 204)
        raise bad_request(f"pod {info.name} does not have a host assigned")
    host = _host(context, node_name)
    if is_log:
        url = f"https://{host}/containerLogs/{path}?{urlencode(query)}"
        return KubeletCall(url.rstrip("?"), True, info.name)
    options = urlencode(sorted(_stream_options(request), key=lambda option: option[0]))
    url = f"https://{host}/{_PATHS[info.subresource]}/{path}?{options}"
    return KubeletCall(url.rstrip("?"), False, info.name)


def _container(pod: Document, pod_name: str, requested: str) -> str:
    """Return the requested container.

    Parity: pkg/registry/core/pod/strategy.go validateContainer, v1.36.
    """
    names = [
        container["name"]
        for field in _CONTAINER_FIELDS
        for container in pod["spec"].get(field) or ()
    ]
    if requested:
        if requested not in names:
            raise bad_request(f"container {requested} is not valid for pod {pod_name}")
        return requested
    mains = pod["spec"]["containers"]
    if len(mains) == 1:
        return str(mains[0]["name"])
    listed = f"[{' '.join(names)}]"
    raise bad_request(
        f"a container name must be specified for pod {pod_name}, choose one of: {listed}"
    )


def _host(context: Context, node_name: str) -> str:
    """Return the address and port of a node's kubelet."""
    nodes = context.registry.find("", "v1", "nodes")
    assert nodes is not None, "every server has nodes"
    node = context.document(nodes, get(context, nodes, "", node_name, ""))
    status = node.get("status") or {}
    known: Mapping[str, str] = {
        address["type"]: address["address"] for address in reversed(status.get("addresses") or ())
    }
    host = next((known[kind] for kind in _ADDRESS_TYPES if kind in known), None)
    if host is None:
        raise ApiError(500, "", "no preferred addresses found; known addresses: []")
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    port = int(endpoint.get("Port") or 0) or _DEFAULT_PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _log_query(request: ResourceRequest) -> dict[str, str]:
    """Validate PodLogOptions; return the query of the kubelet's log endpoint."""
    query = request.query
    found = {
        name: "true"
        for name in ("follow", "previous", "timestamps")
        if name in query and is_true(query[name])
    }
    numbers = {
        name: _number(query[name])
        for name in ("sinceSeconds", "tailLines", "limitBytes")
        if query.get(name)
    }
    since = query.get("sinceTime", "")
    if problems := _log_problems(numbers, since, query.get("stream")):
        raise invalid_object("", "PodLogOptions", request.info.name, problems)
    found.update((name, str(value)) for name, value in numbers.items())
    if since:
        try:
            found["sinceTime"] = time_text(parse_time(since))
        except ValueError as error:
            raise bad_request(str(error)) from None
    return dict(sorted(found.items()))


def _log_problems(numbers: Mapping[str, int], since: str, stream: str | None) -> list[Problem]:
    # Parity: pkg/apis/core/validation/validation.go ValidatePodLogOptions, v1.36.
    problems = []
    tail, limit = numbers.get("tailLines", 0), numbers.get("limitBytes", 1)
    seconds = numbers.get("sinceSeconds")
    if tail < 0:
        problems.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit < 1:
        problems.append(invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(forbidden_field("", text))
    elif seconds is not None and seconds < 1:
        problems.append(invalid("sinceSeconds", seconds, "must be greater than 0"))
    if stream is not None:
        problems.append(forbidden_field("stream", "may not be specified"))
    return problems


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _stream_options(request: ResourceRequest) -> Iterator[tuple[str, str]]:
    """Yield the query of a kubelet's streaming endpoint.

    Parity: pkg/registry/core/pod/strategy.go streamParams, v1.36.
    """
    query = request.query
    if request.info.subresource == "portforward":
        for port in _all(query, "ports"):
            yield "port", port
        return
    # stdout and stderr default to true.
    defaults = {"stdin": "false", "stdout": "true", "stderr": "true", "tty": "false"}
    for name, parameter in _STREAMS.items():
        if is_true(query.get(name, defaults[name])):
            yield parameter, "1"
    if request.info.subresource == "exec":
        for word in _all(query, "command"):
            yield "command", word


def _all(query: Mapping[str, str], name: str) -> list[str]:
    getall = getattr(query, "getall", None)
    if getall is not None:
        return list(getall(name, []))
    return [query[name]] if name in query else []


def rejected_log(code: int, text: str, name: str) -> ApiError:
    """Return the error for a log request that a kubelet rejected.

    Parity: apiserver/pkg/registry/generic/rest/response_checker.go, v1.36.
    """
    if code == 500:
        return internal(text)
    if code == 400:
        return bad_request(text)
    reason, message = _GENERIC.get(code, ("", ""))
    if not message:
        message = (
            f'an error on the server ("{text}") has prevented the request from succeeding'
            if code > 500
            else f"the server responded with the status code {code} but did not return more "
            "information"
        )
        reason = "InternalError" if code > 500 else ""
    return ApiError(code, reason, f"{message} ( pods/log {name})", name=name, kind="pods/log")


_GENERIC: Final[Mapping[int, tuple[str, str]]] = {
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
