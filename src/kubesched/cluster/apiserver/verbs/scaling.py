"""The scale subresource.

Upstream: pkg/registry/apps/deployment/storage/storage.go ScaleREST,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubesched.api.label_selectors import label_selector, selector_from_set
from kubesched.api.meta import LabelSelector
from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.documents import Document, dig, metadata_of, name_of, namespace_of
from kubesched.cluster.apiserver.errors import internal, invalid, invalid_object
from kubesched.cluster.apiserver.resources import Resource, ScaleSubresource
from kubesched.cluster.apiserver.strategy import Strategy
from kubesched.cluster.apiserver.verbs.update import wrong_uid
from kubesched.golang.strconv import go_quote

GROUP: Final = "autoscaling"
_SCALE_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(scale: ScaleSubresource, document: Document) -> Document:
    """Return the Scale of an object."""
    metadata = metadata_of(document)
    status: Document = {"replicas": dig(document, *scale.status_path) or 0}
    found = dig(document, *scale.selector_path) if scale.selector_path else None
    selector = _selector_text(found)
    if selector:
        status["selector"] = selector
    replicas = dig(document, *scale.spec_path)
    if replicas is None and scale.needs_replicas:
        path = "." + ".".join(scale.spec_path)
        raise internal(f"the spec replicas field {go_quote(path)} does not exist")
    return {
        "kind": "Scale",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {name: metadata[name] for name in _SCALE_METADATA if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """Return a selector as text; it may be a string, a label map or a LabelSelector."""
    if selector is None or isinstance(selector, str):
        return selector or ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return str(selector_from_set(selector))
    return str(label_selector(msgspec.convert(selector, LabelSelector)))


def set_scale(
    resource: Resource, scale: ScaleSubresource, document: Document, changed: Document
) -> None:
    """Apply a Scale to its object."""
    metadata, name = metadata_of(changed), name_of(document)
    replicas = dig(changed, "spec", "replicas") or 0
    # The validation of a custom resource has its own message.
    if replicas < 0 and not resource.is_custom:
        problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object(GROUP, "Scale", name_of(changed), [problem])
    expected, actual = metadata.get("uid"), metadata_of(document).get("uid")
    if expected and expected != actual:
        raise wrong_uid(resource, namespace_of(document), name, expected=expected, actual=actual)
    _set(document, scale.spec_path, replicas)
    version = metadata.get("resourceVersion")
    if version:
        metadata_of(document)["resourceVersion"] = version


def _set(document: Document, path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for step in parents:
        inner = document.get(step)
        if not isinstance(inner, dict):
            inner = document[step] = {}
        document = inner
    document[last] = value


def scale_resource(resource: Resource) -> Resource:
    """Return the resource that decodes the body of a Scale request."""
    return Resource(
        group=GROUP,
        version="v1",
        resource="scales",
        kind="Scale",
        singular="",
        is_namespaced=resource.is_namespaced,
        verbs=(),
        strategy=Strategy(),
        schema=schema_for(GROUP, "v1", "Scale"),
    )
