"""Dispatches requests for resources: finds the resource, runs the verb, returns the response.

Never touches a socket: a watch is returned as a watcher.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/{installer.go,handlers/*.go}
"""

from __future__ import annotations

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.errors import ApiError, path_not_found
from kubesched.cluster.apiserver.http.bodies import read_body
from kubesched.cluster.apiserver.http.change_requests import change
from kubesched.cluster.apiserver.http.connections import method_not_allowed
from kubesched.cluster.apiserver.http.delete_requests import delete_collection, delete_one
from kubesched.cluster.apiserver.http.kubelet_proxy import KubeletCall, is_for_kubelet, kubelet_call
from kubesched.cluster.apiserver.http.negotiation import negotiate
from kubesched.cluster.apiserver.http.rendering import Whole, rendering_of
from kubesched.cluster.apiserver.http.request_info import RequestInfo
from kubesched.cluster.apiserver.http.request_types import (
    ResourceRequest,
    ResourceResponse,
    request_of,
)
from kubesched.cluster.apiserver.http.write_options import write_options
from kubesched.cluster.apiserver.metadata import set_namespace
from kubesched.cluster.apiserver.resources import Action, Registry, Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions, encode
from kubesched.cluster.apiserver.verbs.create import create
from kubesched.cluster.apiserver.verbs.list_options import list_options
from kubesched.cluster.apiserver.verbs.reading import get, list_page
from kubesched.cluster.apiserver.verbs.scaling import scale_of, scale_resource
from kubesched.cluster.apiserver.verbs.watching import Watcher
from kubesched.cluster.apiserver.verbs.writing import ContextWriter


class NoSuchPageError(Exception):
    """A path of an unknown group: the response has no Status."""


def resource_of(registry: Registry, info: RequestInfo) -> Resource:
    """Return the resource of a path; raise if it does not exist or lacks the verb."""
    resource = registry.find(info.group, info.version, info.resource)
    if resource is None:
        if info.group and not any(known.group == info.group for known in registry):
            raise NoSuchPageError
        raise path_not_found()
    # RequestInfo sets the namespace for the path of a namespace itself, too.
    is_inside = bool(info.namespace) and (info.group, info.resource) != ("", "namespaces")
    if is_inside and not resource.is_namespaced:
        raise path_not_found()
    if resource.is_namespaced and not is_inside and info.name:
        raise path_not_found()
    verbs = _verbs_at(resource, info)
    is_of_one = info.verb in {"get", "update", "patch", "delete"}
    if is_of_one != bool(info.name) and not info.subresource and info.verb != "watch":
        raise method_not_allowed()
    if resource.is_namespaced and not is_inside and info.verb not in {"list", "watch"}:
        raise method_not_allowed()
    if info.verb not in verbs:
        raise method_not_allowed()
    return resource


def _verbs_at(resource: Resource, info: RequestInfo) -> tuple[str, ...]:
    if not info.subresource:
        return resource.verbs
    if info.subresource in resource.views:
        return resource.views[info.subresource].verbs
    if resource.scale is not None and info.subresource == resource.scale.name:
        return resource.scale.verbs
    if info.subresource in resource.actions:
        return ("create",)
    if info.subresource in resource.unserved:
        return resource.unserved[info.subresource].verbs
    raise path_not_found()


def run(
    context: Context, resource_request: ResourceRequest
) -> ResourceResponse | Watcher | KubeletCall:
    """Handle a request; raise ApiError to reject it."""
    info = resource_request.info
    resource = resource_of(context.registry, info)
    if is_for_kubelet(resource, info.subresource):
        return kubelet_call(context, resource_request, resource)
    representation = negotiate(
        resource_request.headers.get("Accept", ""),
        verb=info.verb,
        include_object=resource_request.query.get("includeObject", ""),
        type_name=_type_name(resource),
    )
    rendering = rendering_of(context, resource, representation)
    if resource.deprecation:
        resource_request.warnings.append(resource.deprecation)
    response = _dispatch(context, resource_request, resource, rendering)
    if isinstance(response, ResourceResponse):
        response.media_type = representation.media_type
    return response


def _type_name(resource: Resource) -> str:
    if resource.is_custom:
        return "unstructured.Unstructured"
    return f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"


def _dispatch(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse | Watcher:
    verb = resource_request.info.verb
    below = resource_request.info.subresource
    if below in resource.unserved and below not in resource.actions:
        return _unserved(context, resource_request, resource)
    if verb == "get":
        return _get(context, resource_request, resource, rendering)
    if verb == "list":
        options = list_options(resource_request.query, resource)
        page = list_page(context, resource, resource_request.namespace_for(resource), options)
        return ResourceResponse(rendering.listed(page))
    if verb == "watch":
        options = list_options(resource_request.query, resource, is_watch=True)
        if resource_request.info.name:
            options.fields = options.fields.with_name(resource_request.info.name)
        return Watcher(
            context, resource, resource_request.namespace_for(resource), options, rendering
        )
    if verb == "create":
        return _create(context, resource_request, resource, rendering)
    if verb in {"update", "patch"}:
        return change(context, resource_request, resource, rendering)
    if verb == "delete":
        return delete_one(context, resource_request, resource, rendering)
    return delete_collection(context, resource_request, resource, rendering)


def _unserved(
    context: Context, resource_request: ResourceRequest, resource: Resource
) -> ResourceResponse:
    """Reject a request that needs the network of the cluster."""
    info = resource_request.info
    get(context, resource, resource_request.namespace_for(resource), info.name, "")
    text = f"{resource.resource}/{info.subresource} needs a way to the cluster's network"
    raise ApiError(503, "ServiceUnavailable", text)


def _get(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse:
    info = resource_request.info
    version = resource_request.query.get("resourceVersion", "")
    entry = get(context, resource, resource_request.namespace_for(resource), info.name, version)
    if resource.scale is not None and info.subresource == resource.scale.name:
        document = context.document(resource, entry)
        scale_rendering = rendering.of(scale_resource(resource))
        return ResourceResponse(scale_rendering.one(scale_of(resource.scale, document)))
    return ResourceResponse(rendering.stored(entry))


def _create(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse:
    options = write_options(resource_request.query, "CreateOptions", resource_request.user_agent)
    request = request_of(context, resource_request, resource, is_dry_run=options.is_dry_run)
    action = resource.actions.get(resource_request.info.subresource, resource.creates)
    if action is not None:
        return _act(context, resource_request, resource, action, request, options)
    document = read_body(
        resource,
        resource_request.body,
        resource_request.content_type,
        options.field_validation,
        request.warnings,
    )
    created = create(context, resource, document, request, options)
    return ResourceResponse(rendering.one(created), 201)


def _act(
    context: Context,
    resource_request: ResourceRequest,
    resource: Resource,
    action: Action,
    request: Request,
    options: WriteOptions,
) -> ResourceResponse:
    """Run the action of a POST that stores nothing under the path."""
    target = Resource(
        group=action.group,
        version=action.version,
        resource=resource.resource,
        kind=action.kind,
        singular="",
        is_namespaced=resource.is_namespaced,
        verbs=("create",),
        strategy=resource.strategy,
        schema=schema_for(action.group, action.version, action.kind),
    )
    body = read_body(
        target,
        resource_request.body,
        resource_request.content_type,
        options.field_validation,
        request.warnings,
    )
    _name_action(resource_request, resource, body, request)
    result = action.create(body, request, ContextWriter(context, options))
    code = result.get("code") if result.get("kind") == "Status" else None
    return ResourceResponse(encode(result), code or 201)


def _name_action(
    resource_request: ResourceRequest, resource: Resource, body: Document, request: Request
) -> None:
    """Set the namespace and the name that the path and the body of an action share."""
    if resource.is_namespaced:
        set_namespace(body, request.namespace)
    if not resource_request.info.subresource:
        request.name = name_of(body)
