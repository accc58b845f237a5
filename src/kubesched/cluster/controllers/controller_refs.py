"""Controller references: adoption of orphans, release of objects that no longer match.

Owns which children a parent controls and which parents a changed child concerns. Never decides
what happens to a child.
Upstream: pkg/controller/controller_ref_manager.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kubesched.api.documents import (
    Document,
    controller_ref,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_of,
    selector_of,
    uid_of,
)
from kubesched.api.label_selectors import Operator, Selector
from kubesched.client.errors import ApiError, InvalidError, NotFoundError
from kubesched.client.resources import Resource
from kubesched.cluster.informers.informer import Informer
from kubesched.cluster.informers.write_through import WriteThroughClient

_ORPHANS: Final = "orphans"


def index_orphans(informer: Informer) -> None:
    """Index the objects of a kind that have no controller."""
    informer.add_index(_ORPHANS, _orphan_index_keys)


def resolve_owner_key(parents: Informer, child: Document) -> str | None:
    """Return the key of the parent that controls a child; kind, name and uid must match."""
    reference = owner_of(child)
    if reference is None or reference.get("kind") != parents.resource.kind:
        return None
    key = f"{namespace_of(child)}/{reference['name']}"
    parent = parents.get(key)
    return key if parent is not None and uid_of(parent) == reference["uid"] else None


def selector_of_parent(parent: Document) -> Selector:
    """Return a parent's LabelSelector; an empty one matches nothing."""
    return selector_of(parent["spec"].get("selector") or None)


def enqueue_parents(
    parents: Informer,
    enqueue: Callable[[str], None],
    old: Document | None,
    new: Document | None,
    selector: Callable[[Document], Selector] = selector_of_parent,
) -> None:
    """Enqueue every parent that a change of a child concerns."""
    # Parity: daemon_controller.go addPod, updatePod, deletePod, v1.36; all controllers have them.
    if new is None:
        _enqueue_owner(parents, old, enqueue)
        return
    owner_changed = old is not None and owner_of(old) != owner_of(new)
    if owner_changed:
        _enqueue_owner(parents, old, enqueue)
    if owner_of(new) is not None:
        _enqueue_owner(parents, new, enqueue)
    elif not is_terminating(new) and (
        old is None or owner_changed or labels_of(old) != labels_of(new)
    ):
        for parent in parents.in_namespace(namespace_of(new)):
            if selector(parent).matches(labels_of(new)):
                enqueue(key_of(parent))


async def claim_children(  # noqa: PLR0913  # One argument for each thing that differs between kinds.
    api: WriteThroughClient,
    children: Resource,
    parent: Document,
    parents: Resource,
    selector: Selector,
    *,
    is_member: Callable[[Document], bool] = lambda _: True,
    is_candidate: Callable[[Document], bool] = lambda _: True,
    finalizers: Sequence[str] = (),
) -> list[Document]:
    """Return a parent's children, after adopting orphans and releasing mismatches.

    Args:
        api: The API server.
        children: Resource of the children.
        parent: Their controller.
        parents: Resource of the parent.
        selector: Selects the children by label.
        is_member: Further condition; children that fail it are released.
        is_candidate: Limits the children that are considered at all.
        finalizers: Finalizers that a child has while the parent controls it.
    """
    # Parity: controller_ref_manager.go ClaimObject, ClaimPods, v1.36.
    informer = api.informers.of(children)
    references = _ControllerRefManager(api, children, parent, parents, finalizers)

    def matches(child: Document) -> bool:
        return selector.matches(labels_of(child)) and is_member(child)

    owned = [one for one in informer.owned_by(uid_of(parent)) if is_candidate(one)]
    claimed = [one for one in owned if matches(one)]
    if is_terminating(parent):
        return claimed
    for released in owned:
        if not matches(released):
            await references.remove(released)
    for orphan in _orphans(informer, namespace_of(parent), selector):
        if is_candidate(orphan) and not is_terminating(orphan) and matches(orphan):
            adopted = await references.add(orphan)
            if adopted is not None:
                claimed.append(adopted)
    if references.errors:
        raise references.errors[0]
    return claimed


class CannotAdoptError(ApiError):
    """The parent is deleted or terminating and must not adopt."""


class _ControllerRefManager:
    """Adopts and releases children; re-reads the parent before the first adoption."""

    def __init__(
        self,
        api: WriteThroughClient,
        children: Resource,
        parent: Document,
        parents: Resource,
        finalizers: Sequence[str],
    ) -> None:
        self.errors: list[ApiError] = []
        self._api = api
        self._children = children
        self._parent = parent
        self._parents = parents
        self._finalizers = list(finalizers)
        self._is_checked = False

    async def add(self, child: Document) -> Document | None:
        """Make the parent the controller of a child; return the child, or None on failure."""
        metadata: Document = {
            "uid": uid_of(child),
            "ownerReferences": [controller_ref(self._parent)],
        }
        if self._finalizers:
            metadata["finalizers"] = self._finalizers
        try:
            await self._check()
            return await self._api.patch(self._children, child, {"metadata": metadata})
        except NotFoundError:
            return None
        except ApiError as error:
            self.errors.append(error)
            return None

    async def remove(self, child: Document) -> None:
        """Release a child."""
        reference = {"$patch": "delete", "uid": uid_of(self._parent)}
        metadata: Document = {"uid": uid_of(child), "ownerReferences": [reference]}
        if self._finalizers:
            metadata["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        try:
            await self._api.patch(self._children, child, {"metadata": metadata})
        except (NotFoundError, InvalidError):
            # The child is gone or replaced, or the reference was removed already.
            return
        except ApiError as error:
            self.errors.append(error)

    async def _check(self) -> None:
        if self._is_checked:
            return
        # The informer may be behind: a parent that is being deleted must not adopt what its
        # deletion has just orphaned.
        parent = self._parent
        namespace, name = namespace_of(parent), name_of(parent)
        try:
            latest = await self._api.get(self._parents, name, namespace)
        except NotFoundError as error:
            raise CannotAdoptError(f"can't recheck DeletionTimestamp: {error}") from error
        if uid_of(latest) != uid_of(parent):
            raise CannotAdoptError(
                f"original {self._parents.kind} {namespace}/{name} is gone: "
                f"got uid {uid_of(latest)}, wanted {uid_of(parent)}"
            )
        if is_terminating(latest):
            at = latest["metadata"]["deletionTimestamp"]
            raise CannotAdoptError(f"{namespace}/{name} has just been deleted at {at}")
        self._is_checked = True


def _enqueue_owner(
    parents: Informer, child: Document | None, enqueue: Callable[[str], None]
) -> None:
    key = None if child is None else resolve_owner_key(parents, child)
    if key is not None:
        enqueue(key)


def _orphans(informer: Informer, namespace: str, selector: Selector) -> list[Document]:
    """Return the orphans of a namespace that a selector may match, using one of its labels."""
    for requirement in selector.requirements:
        if requirement.operator in (Operator.EQUALS, Operator.IN) and len(requirement.values) == 1:
            return informer.by_index(
                _ORPHANS, f"{namespace}/{requirement.key}={requirement.values[0]}"
            )
    return informer.by_index(_ORPHANS, namespace)


def _orphan_index_keys(document: Document) -> Iterable[str]:
    if owner_of(document) is not None:
        return ()
    namespace = namespace_of(document)
    labels = labels_of(document)
    return (namespace, *(f"{namespace}/{key}={value}" for key, value in labels.items()))
