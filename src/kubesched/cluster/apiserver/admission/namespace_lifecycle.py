"""NamespaceLifecycle: rejects objects in missing or terminating namespaces.

Also rejects deletion of the namespaces that a cluster needs.
Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.admission.rejections import Plugin, rejection
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import forbidden, not_found
from kubesched.cluster.apiserver.strategy import Request

_IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(Plugin):
    """Rejects writes that a namespace's state does not allow."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject creation in a missing or terminating namespace."""
        if request.group == "" and request.resource == "namespaces":
            if new is None and not request.subresource and request.name in _IMMORTAL:
                text = "this namespace may not be deleted"
                raise forbidden("", "namespaces", request.name, text)
            return
        if not request.namespace or new is None or request.verb in {"delete", "deletecollection"}:
            return
        if (request.group, request.resource) == (
            "authorization.k8s.io",
            "localsubjectaccessreviews",
        ):
            return
        namespace = request.reader.get("", "namespaces", "", request.namespace)
        if namespace is None:
            raise not_found("", "namespaces", request.namespace)
        if old is not None or (namespace.get("status") or {}).get("phase") != "Terminating":
            return
        name = request.namespace
        why = f"unable to create new content in namespace {name} because it is being terminated"
        error = rejection(new, request, why)
        error.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error
