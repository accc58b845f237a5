"""Asking admission, in its order.

Owns the two rounds: what may fill in, and what may only refuse. Never admits anything itself.
Upstream: staging/src/k8s.io/apiserver/pkg/admission/chain.go
"""

from __future__ import annotations

from kubesched.apiserver.documents import Document
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.strategy import Request
from kubesched.apiserver.verbs.context import Context


def admit(
    context: Context,
    resource: Resource,
    new: Document | None,
    old: Document | None,
    request: Request,
) -> None:
    """Let plugins and the kind fill in or refuse; no new document means a deletion."""
    for plugin in context.admission:
        plugin.admit(new, old, request)
    if new is None:
        if old is not None:
            resource.strategy.admit_delete(old, request)
    elif old is None:
        resource.strategy.admit_create(new, request)
    else:
        resource.strategy.admit_update(new, old, request)


def validate(
    context: Context, new: Document | None, old: Document | None, request: Request
) -> None:
    """Let plugins refuse what is otherwise ready to be stored."""
    for plugin in context.admission:
        plugin.validate(new, old, request)
