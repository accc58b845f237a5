"""Requests for resources: from a path, a body and headers to a verb and its answer.

Owns which verb runs, and what reading and creating answer. Never touches a socket: watches are
handed back as watchers.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/{installer.go,handlers/*.go}
"""

from __future__ import annotations

from kubesched.apiserver.asked import Answer, Asked, request_of
from kubesched.apiserver.bodies import read_body
from kubesched.apiserver.change_requests import change
from kubesched.apiserver.connections import method_not_allowed
from kubesched.apiserver.delete_requests import delete_collection, delete_one
from kubesched.apiserver.documents import Document, name_of
from kubesched.apiserver.errors import ApiError, path_not_found
from kubesched.apiserver.kubelet_proxy import KubeletCall, is_for_kubelet, kubelet_call
from kubesched.apiserver.metadata import set_namespace
from kubesched.apiserver.negotiation import negotiate
from kubesched.apiserver.rendering import Whole, rendering_of
from kubesched.apiserver.requests import RequestInfo
from kubesched.apiserver.resources import Action, Registry, Resource
from kubesched.apiserver.schema.load import schema_for
from kubesched.apiserver.strategy import Request
from kubesched.apiserver.verbs.context import Context, WriteOptions, encode
from kubesched.apiserver.verbs.create import create
from kubesched.apiserver.verbs.list_options import list_options
from kubesched.apiserver.verbs.reading import get, list_page
from kubesched.apiserver.verbs.scaling import scale_of, scale_resource
from kubesched.apiserver.verbs.watching import Watcher
from kubesched.apiserver.verbs.writing import ContextWriter
from kubesched.apiserver.write_options import write_options


class NoSuchPageError(Exception):
    """A path of a group that is not there at all: not even a Status answers."""


def resource_of(registry: Registry, info: RequestInfo) -> Resource:
    """Return the resource a path names; raise where nothing is there or the verb is not."""
    resource = registry.find(info.group, info.version, info.resource)
    if resource is None:
        if info.group and not any(one.group == info.group for one in registry):
            raise NoSuchPageError
        raise path_not_found()
    # The path of a namespace itself names it as if it were inside.
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


def run(context: Context, asked: Asked) -> Answer | Watcher | KubeletCall:
    """Do what is asked; raise ApiError to refuse."""
    info = asked.info
    resource = resource_of(context.registry, info)
    if is_for_kubelet(resource, info.subresource):
        return kubelet_call(context, asked, resource)
    wanted = negotiate(
        asked.headers.get("Accept", ""),
        verb=info.verb,
        include_object=asked.query.get("includeObject", ""),
        type_name=_type_name(resource),
    )
    rendering = rendering_of(context, resource, wanted)
    if resource.deprecation:
        asked.warnings.append(resource.deprecation)
    answer = _dispatch(context, asked, resource, rendering)
    if isinstance(answer, Answer):
        answer.media_type = wanted.media_type
    return answer


def _type_name(resource: Resource) -> str:
    if resource.is_custom:
        return "unstructured.Unstructured"
    return f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"


def _dispatch(
    context: Context, asked: Asked, resource: Resource, rendering: Whole
) -> Answer | Watcher:
    verb = asked.info.verb
    below = asked.info.subresource
    if below in resource.unserved and below not in resource.actions:
        return _unserved(context, asked, resource)
    if verb == "get":
        return _get(context, asked, resource, rendering)
    if verb == "list":
        options = list_options(asked.query, resource)
        page = list_page(context, resource, asked.namespace_for(resource), options)
        return Answer(rendering.listed(page))
    if verb == "watch":
        options = list_options(asked.query, resource, is_watch=True)
        if asked.info.name:
            options.fields = options.fields.with_name(asked.info.name)
        return Watcher(context, resource, asked.namespace_for(resource), options, rendering)
    if verb == "create":
        return _create(context, asked, resource, rendering)
    if verb in {"update", "patch"}:
        return change(context, asked, resource, rendering)
    if verb == "delete":
        return delete_one(context, asked, resource, rendering)
    return delete_collection(context, asked, resource, rendering)


def _unserved(context: Context, asked: Asked, resource: Resource) -> Answer:
    """Answer for what needs a network into the cluster."""
    info = asked.info
    get(context, resource, asked.namespace_for(resource), info.name, "")
    text = f"{resource.resource}/{info.subresource} needs a way to the cluster's network"
    raise ApiError(503, "ServiceUnavailable", text)


def _get(context: Context, asked: Asked, resource: Resource, rendering: Whole) -> Answer:
    info = asked.info
    version = asked.query.get("resourceVersion", "")
    entry = get(context, resource, asked.namespace_for(resource), info.name, version)
    if resource.scale is not None and info.subresource == resource.scale.name:
        document = context.document(resource, entry)
        shown = rendering.of(scale_resource(resource))
        return Answer(shown.one(scale_of(resource.scale, document)))
    return Answer(rendering.stored(entry))


def _create(context: Context, asked: Asked, resource: Resource, rendering: Whole) -> Answer:
    options = write_options(asked.query, "CreateOptions", asked.user_agent)
    request = request_of(context, asked, resource, is_dry_run=options.is_dry_run)
    action = resource.actions.get(asked.info.subresource, resource.creates)
    if action is not None:
        return _act(context, asked, resource, action, request, options)
    document = read_body(
        resource, asked.body, asked.content_type, options.field_validation, request.warnings
    )
    created = create(context, resource, document, request, options)
    return Answer(rendering.one(created), 201)


def _act(
    context: Context,
    asked: Asked,
    resource: Resource,
    action: Action,
    request: Request,
    options: WriteOptions,
) -> Answer:
    """Run what POSTing does where nothing is stored under the path."""
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
        target, asked.body, asked.content_type, options.field_validation, request.warnings
    )
    _name_action(asked, resource, body, request)
    result = action.create(body, request, ContextWriter(context, options))
    code = result.get("code") if result.get("kind") == "Status" else None
    return Answer(encode(result), code or 201)


def _name_action(asked: Asked, resource: Resource, body: Document, request: Request) -> None:
    """Let the path and the body of an action agree on names."""
    if resource.is_namespaced:
        set_namespace(body, request.namespace)
    if not asked.info.subresource:
        request.name = name_of(body)
