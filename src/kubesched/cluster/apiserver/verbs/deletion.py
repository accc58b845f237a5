"""Delete: grace periods, finalizers, propagation and preconditions.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go,
staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Delete,
pkg/registry/core/namespace/storage/storage.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.times import parse_time, time_text
from kubesched.cluster.apiserver.documents import (
    Document,
    copy_of,
    metadata_of,
    name_of,
    namespace_of,
)
from kubesched.cluster.apiserver.errors import (
    conflict,
    invalid,
    invalid_object,
    not_found,
    not_supported,
)
from kubesched.cluster.apiserver.metadata import FINALIZER_FOREGROUND, FINALIZER_ORPHAN
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context, admit, is_same, validate

_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")
_NAMESPACES: Final = ("", "namespaces")


def delete(
    context: Context, resource: Resource, options: Document, request: Request
) -> tuple[Document, bool]:
    """Delete an object; return the response and whether the object is gone."""
    entry = context.entry(resource, request.namespace, request.name)
    if entry is None:
        raise not_found(resource.error_group, resource.resource, request.name)
    old = context.document(resource, entry)
    _check_options(options)
    _check_preconditions(resource, old, options)
    admit(context, resource, None, old, request)
    validate(context, None, old, request)
    new = copy_of(old)
    if _is_namespace(resource):
        terminating = _begin_namespace(context, resource, new, options)
        if terminating is not None:
            return terminating, False
    if resource.strategy.begin_deletion(new, request):
        stored = _store(context, resource, new, options)
        marked = copy_of(stored)
        if not _is_dry_run(options):
            resource.strategy.after_marked(stored, request)
        return marked, False
    return _delete(context, resource, new, old, options, request)


def _delete(
    context: Context,
    resource: Resource,
    new: Document,
    old: Document,
    options: Document,
    request: Request,
) -> tuple[Document, bool]:
    is_graceful, is_pending = _before_delete(context, resource, new, options)
    if is_pending:
        return response_for(resource, old), False
    metadata = metadata_of(new)
    finalizers = _garbage_finalizers(resource, metadata, options)
    _warn_of_orphans(resource, options, request)
    if set(finalizers) != set(metadata.get("finalizers") or ()):
        _set_or_drop(metadata, "finalizers", finalizers)
    has_finalizers = bool(metadata.get("finalizers"))
    if not is_graceful and has_finalizers:
        _mark_as_deleting(context, metadata)
    waits = is_graceful and (metadata.get("deletionGracePeriodSeconds") or 0) > 0
    if has_finalizers or waits:
        return _store(context, resource, new, options), False
    if not _is_dry_run(options):
        # Parity: upstream writes a graceful deletion with a period of 0 before it removes the
        # object, so that the last state has the deletion fields.
        if is_graceful:
            _store(context, resource, new, options)
        new = remove(context, resource, new if is_graceful else old, request)
    return response_for(resource, new), True


def _store(context: Context, resource: Resource, document: Document, options: Document) -> Document:
    """Store an object that is being deleted."""
    entry = context.entry(resource, namespace_of(document), name_of(document))
    if _is_dry_run(options) or entry is None:
        return document
    if not is_same(document, context.document(resource, entry)):
        new = context.new_entry(resource, document, context.store.next_version())
        context.store.put(resource.storage, new)
    return document


def remove(context: Context, resource: Resource, last: Document, request: Request) -> Document:
    """Remove an object; return its last state with the version of the deletion."""
    document = copy_of(last)
    entry = context.new_entry(resource, document, context.store.next_version())
    context.store.delete(resource.storage, entry)
    resource.strategy.after_delete(document, request)
    return document


def response_for(resource: Resource, document: Document) -> Document:
    """Return the response of a deletion."""
    if resource.strategy.returns_deleted_object:
        return document
    details = {"name": name_of(document), "group": resource.group, "kind": resource.resource}
    details["uid"] = metadata_of(document).get("uid") or ""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def is_to_be_deleted(resource: Resource, new: Document, old: Document) -> bool:
    """Return whether an update completes a deletion, e.g. by removing the last finalizer."""
    # Parity: store.go ShouldDeleteDuringUpdate, v1.36
    if metadata_of(new).get("finalizers") or not metadata_of(old).get("deletionTimestamp"):
        return False
    if metadata_of(old).get("deletionGracePeriodSeconds"):
        return False
    return not (_is_namespace(resource) and (new.get("spec") or {}).get("finalizers"))


def _before_delete(
    context: Context, resource: Resource, document: Document, options: Document
) -> tuple[bool, bool]:
    """Set the deletion timestamp; return whether deletion is graceful and whether pending."""
    # Parity: registry/rest/delete.go BeforeDelete, v1.36
    metadata, requested = metadata_of(document), options.get("gracePeriodSeconds")
    if requested is not None and requested < 0:
        requested = 1
    if resource.strategy.default_grace_period_s is None:
        return False, False
    if metadata.get("deletionTimestamp"):
        remaining = metadata.get("deletionGracePeriodSeconds") or 0
        if remaining == 0:
            return False, False
        if requested is None or requested >= remaining:
            return False, True
        _shorten(context, metadata, remaining, requested)
        return True, False
    period_s = resource.strategy.grace_period_s(document, requested)
    if period_s is None:
        return False, False
    now_s = context.clock.now_s()
    metadata["deletionTimestamp"] = time_text(now_s + period_s)
    metadata["deletionGracePeriodSeconds"] = period_s
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True, False


def _shorten(
    context: Context, metadata: dict[str, Any], remaining_s: int, requested_s: int
) -> None:
    now_s = context.clock.now_s()
    ends_s = parse_time(metadata["deletionTimestamp"]) - remaining_s + requested_s
    if ends_s < now_s:
        ends_s = now_s
        # It stays graceful: the component that runs the object completes the deletion.
        requested_s = 1 if requested_s else 0
    metadata["deletionTimestamp"] = time_text(ends_s)
    metadata["deletionGracePeriodSeconds"] = requested_s


def _mark_as_deleting(context: Context, metadata: dict[str, Any]) -> None:
    now_s = context.clock.now_s()
    was = metadata.get("deletionTimestamp")
    if was is None and metadata.get("generation"):
        metadata["generation"] += 1
    if was is None or parse_time(was) > now_s:
        metadata["deletionTimestamp"] = time_text(now_s)
    metadata["deletionGracePeriodSeconds"] = 0


def _warn_of_orphans(resource: Resource, options: Document, request: Request) -> None:
    has_policy = options.get("propagationPolicy") or options.get("orphanDependents") is not None
    if resource.strategy.orphans_by_default and resource.group == "batch" and not has_policy:
        request.warnings.append(
            "child pods are preserved by default when jobs are deleted; set "
            "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
            "suppress this warning"
        )


def _garbage_finalizers(
    resource: Resource, metadata: dict[str, Any], options: Document
) -> list[str]:
    """Return the finalizers, adjusted to the propagation policy."""
    # Parity: store.go deletionFinalizersForGarbageCollection, v1.36
    finalizers = metadata.get("finalizers") or []
    kept = [name for name in finalizers if name not in {FINALIZER_ORPHAN, FINALIZER_FOREGROUND}]
    if not resource.strategy.collects_garbage:
        return kept
    if options.get("orphanDependents") is not None:
        return [*kept, FINALIZER_ORPHAN] if options["orphanDependents"] else kept
    policy = options.get("propagationPolicy")
    if policy is None:
        # Without a policy, the finalizers of the object determine it.
        policy_finalizers = [name for name in finalizers if name not in kept][:1]
        if not policy_finalizers and resource.strategy.orphans_by_default:
            policy_finalizers = [FINALIZER_ORPHAN]
        return [*kept, *policy_finalizers]
    added = {"Orphan": [FINALIZER_ORPHAN], "Foreground": [FINALIZER_FOREGROUND]}
    return [*kept, *added.get(policy, [])]


def _check_options(options: Document) -> None:
    problems = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _POLICIES[:-1]:
        problems.append(not_supported("propagationPolicy", policy, _POLICIES))
    if any(value != "All" for value in options.get("dryRun") or ()):
        problems.append(not_supported("dryRun", options["dryRun"], ("All",)))
    if problems:
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", problems)


def _check_preconditions(resource: Resource, document: Document, options: Document) -> None:
    preconditions = options.get("preconditions") or {}
    metadata, name = metadata_of(document), name_of(document)
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if _is_namespace(resource):
        _check_namespace_preconditions(metadata, name, uid, version)
    if uid is not None and uid != metadata.get("uid"):
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata.get('uid')}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.error_group, resource.kind, name, why)
    if version is not None and version != metadata.get("resourceVersion"):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({metadata.get('resourceVersion')}). "
            "The object might have been modified"
        )
        raise conflict(resource.error_group, resource.kind, name, why)


def _check_namespace_preconditions(
    metadata: dict[str, Any], name: str, uid: str | None, version: str | None
) -> None:
    """Check preconditions with the messages of the namespace storage."""
    for field, expected, actual in (
        ("UID", uid, metadata.get("uid")),
        ("ResourceVersion", version, metadata.get("resourceVersion")),
    ):
        if expected is not None and expected != actual:
            why = (
                f"Precondition failed: {field} in precondition: {expected}, "
                f"{field} in object meta: {actual}"
            )
            raise conflict("", "namespaces", name, why)


def _is_dry_run(options: Document) -> bool:
    return bool(options.get("dryRun"))


def _is_namespace(resource: Resource) -> bool:
    return (resource.group, resource.resource) == _NAMESPACES


def _begin_namespace(
    context: Context, resource: Resource, document: Document, options: Document
) -> Document | None:
    """Mark a namespace as terminating; return it until its finalizers are gone."""
    metadata = metadata_of(document)
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = time_text(context.clock.now_s())
        document["status"] = {**(document.get("status") or {}), "phase": "Terminating"}
        _set_or_drop(metadata, "finalizers", _garbage_finalizers(resource, metadata, options))
        return _store(context, resource, document, options)
    return document if (document.get("spec") or {}).get("finalizers") else None


def _set_or_drop(metadata: dict[str, Any], field: str, value: list[str]) -> None:
    if value:
        metadata[field] = value
    else:
        metadata.pop(field, None)
