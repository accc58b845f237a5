"""Whose a child is: what its controller makes its own, and what it lets go.

Owns adoption and release by controller reference, and which parents hear of a child. Never decides
what is done with a child.
Upstream: pkg/controller/controller_ref_manager.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kubesched.client.cached.api import Api
from kubesched.client.cached.documents import (
    Document,
    Selector,
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
from kubesched.client.cached.informers import Informer
from kubesched.client.errors import ApiError, InvalidError, NotFoundError
from kubesched.client.resources import Resource
from kubesched.objects.label_selectors import Operator

_ORPHANS: Final = "orphans"


def index_orphans(informer: Informer) -> None:
    """Have those objects of a namespace found which have no controller."""
    informer.add_index(_ORPHANS, _places_of_orphan)


def owner_key(parents: Informer, child: Document) -> str | None:
    """Return the key of the parent that controls a child: by kind, name and uid."""
    reference = owner_of(child)
    if reference is None or reference.get("kind") != parents.resource.kind:
        return None
    key = f"{namespace_of(child)}/{reference['name']}"
    parent = parents.get(key)
    return key if parent is not None and uid_of(parent) == reference["uid"] else None


def selector_in_spec(parent: Document) -> Selector:
    """Return the LabelSelector of a parent; an empty one takes nothing, instead of everything."""
    return selector_of(parent["spec"].get("selector") or None)


def wake_parents(
    parents: Informer,
    old: Document | None,
    new: Document | None,
    wake: Callable[[str], None],
    selector: Callable[[Document], Selector] = selector_in_spec,
) -> None:
    """Call a function with the key of every parent that a change of a child concerns."""
    # Parity: daemon_controller.go addPod, updatePod, deletePod, v1.36; all controllers have them.
    if new is None:
        _wake_owner(parents, old, wake)
        return
    owner_changed = old is not None and owner_of(old) != owner_of(new)
    if owner_changed:
        _wake_owner(parents, old, wake)
    if owner_of(new) is not None:
        _wake_owner(parents, new, wake)
    elif not is_terminating(new) and (
        old is None or owner_changed or labels_of(old) != labels_of(new)
    ):
        for parent in parents.in_namespace(namespace_of(new)):
            if selector(parent).matches(labels_of(new)):
                wake(key_of(parent))


async def claimed(  # noqa: PLR0913  # One argument for each thing that differs between kinds.
    api: Api,
    children: Resource,
    parent: Document,
    parents: Resource,
    selector: Selector,
    *,
    is_member: Callable[[Document], bool] = lambda _: True,
    is_candidate: Callable[[Document], bool] = lambda _: True,
    finalizers: Sequence[str] = (),
) -> list[Document]:
    """Return the children of a parent, after taking orphans in and letting strangers go.

    Args:
        api: The API server.
        children: What kind the children are of.
        parent: Their controller.
        parents: What kind it is of.
        selector: Which labels its children have.
        is_member: What else must be true of them, so that they are not let go.
        is_candidate: Which are looked at; the others are neither returned nor touched.
        finalizers: What a child has as long as it is the parent's.
    """
    # Parity: controller_ref_manager.go ClaimObject, ClaimPods, v1.36.
    informer = api.informers.of(children)
    references = _References(api, children, parent, parents, finalizers)

    def fits(child: Document) -> bool:
        return selector.matches(labels_of(child)) and is_member(child)

    owned = [one for one in informer.owned_by(uid_of(parent)) if is_candidate(one)]
    mine = [one for one in owned if fits(one)]
    if is_terminating(parent):
        return mine
    for stranger in owned:
        if not fits(stranger):
            await references.remove(stranger)
    for orphan in _orphans(informer, namespace_of(parent), selector):
        if is_candidate(orphan) and not is_terminating(orphan) and fits(orphan):
            adopted = await references.add(orphan)
            if adopted is not None:
                mine.append(adopted)
    if references.errors:
        raise references.errors[0]
    return mine


class CannotAdoptError(ApiError):
    """The parent is gone or going: it takes nothing in any more."""


class _References:
    """Controller references of one parent, which is asked for once before the first is made."""

    def __init__(
        self,
        api: Api,
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
        """Return a child that has the parent as its controller now; None if it could not be."""
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
        """Let a child go."""
        reference = {"$patch": "delete", "uid": uid_of(self._parent)}
        metadata: Document = {"uid": uid_of(child), "ownerReferences": [reference]}
        if self._finalizers:
            metadata["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        try:
            await self._api.patch(self._children, child, {"metadata": metadata})
        except (NotFoundError, InvalidError):
            # It is gone, or is another one of that name, or has no owner left to be removed.
            return
        except ApiError as error:
            self.errors.append(error)

    async def _check(self) -> None:
        if self._is_checked:
            return
        # The informer may be behind, and a parent that is being deleted must not take in what its
        # deletion has just let go.
        parent = self._parent
        namespace, name = namespace_of(parent), name_of(parent)
        try:
            fresh = await self._api.get(self._parents, name, namespace)
        except NotFoundError as error:
            raise CannotAdoptError(f"can't recheck DeletionTimestamp: {error}") from error
        if uid_of(fresh) != uid_of(parent):
            raise CannotAdoptError(
                f"original {self._parents.kind} {namespace}/{name} is gone: "
                f"got uid {uid_of(fresh)}, wanted {uid_of(parent)}"
            )
        if is_terminating(fresh):
            at = fresh["metadata"]["deletionTimestamp"]
            raise CannotAdoptError(f"{namespace}/{name} has just been deleted at {at}")
        self._is_checked = True


def _wake_owner(parents: Informer, child: Document | None, wake: Callable[[str], None]) -> None:
    key = None if child is None else owner_key(parents, child)
    if key is not None:
        wake(key)


def _orphans(informer: Informer, namespace: str, selector: Selector) -> list[Document]:
    """Return the orphans of a namespace that a selector may match, found by one of its labels."""
    for one in selector.requirements:
        if one.operator in (Operator.EQUALS, Operator.IN) and len(one.values) == 1:
            return informer.by(_ORPHANS, f"{namespace}/{one.key}={one.values[0]}")
    return informer.by(_ORPHANS, namespace)


def _places_of_orphan(document: Document) -> Iterable[str]:
    if owner_of(document) is not None:
        return ()
    namespace = namespace_of(document)
    labels = labels_of(document)
    return (namespace, *(f"{namespace}/{key}={value}" for key, value in labels.items()))
