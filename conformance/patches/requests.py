"""Random writes of an object.

Owns the generation of creations, updates, patches of every type and applies. Never sends one.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.patches.kinds import NOT_READY, Document, Kind, Slots

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def put(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Set the value at a path, unless a parent is not a map."""
    for name in path[:-1]:
        below = document.setdefault(name, {})
        if not isinstance(below, dict):
            return
        document = below
    document[path[-1]] = copy.deepcopy(value)


def look(document: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


@dataclass
class Step:
    """One request."""

    method: str
    body: Any
    content_type: str = "application/json"
    subresource: str = ""
    manager: str = "m"
    force: bool = False


def _keep_one_problem(body: Document) -> None:
    """Remove all fields beside an unknown one: of two problems upstream may report either."""
    if isinstance(body.get("spec"), dict) and "bogus" in body["spec"]:
        body["spec"] = {"bogus": 1}


def _is_plain(value: Any) -> bool:
    return str(value).isascii() and str(value).isalnum()


class Requests:
    """Random requests, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def _manager(self) -> str:
        names = ["m1", "m2", "m3", "kubectl", "m<4>"]
        if self.random.random() < 0.15:
            return f"x{self.random.randrange(14)}"
        return self.random.choice(names)

    def _bare(self, kind: Kind, name: str) -> Document:
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}

    def _fill(self, document: Document, slots: Slots, *, nulls: float = 0.0) -> None:
        for path, values in self.random.sample(slots, min(len(slots), self.random.randrange(6))):
            null = self.random.random() < nulls
            put(document, path, None if null else self.random.choice(values))

    def _elements(self, key: str, elements: list[Document]) -> list[Document]:
        chosen = self.random.sample(elements, min(len(elements), self.random.randrange(1, 4)))
        if self.random.random() < 0.9:
            by_key = {(one[key], one.get("protocol"), one.get("effect")): one for one in chosen}
            chosen = list(by_key.values())
        return copy.deepcopy(chosen)

    def _whole(self, kind: Kind, name: str) -> Document:
        document = {**self._bare(kind, name), **copy.deepcopy(kind.base)}
        self._fill(document, kind.slots)
        for path, key, elements in kind.lists:
            if self.random.random() < 0.4:
                put(document, path, self._elements(key, elements))
        return document

    def creation(self, kind: Kind, name: str) -> Step:
        """Return the creation of an object."""
        body = self._whole(kind, name)
        _keep_one_problem(body)
        if kind.kind == "Node":
            put(body, ("spec", "taints"), [NOT_READY])
        if self.random.random() < 0.6:
            return Step("POST", body, manager=self._manager())
        return Step("PATCH", body, APPLY, manager=self._manager())

    def step(self, kind: Kind, name: str, live: Document) -> Step:
        """Return a write of an object that may exist."""
        subresource = ""
        if kind.status_slots and self.random.random() < 0.25:
            subresource = "status"
        makers: list[Callable[..., Step]] = [
            self._update, self._json_patch, self._merge_patch, self._apply, self._apply,
        ]  # fmt: skip
        if not kind.is_custom:
            makers += [self._strategic, self._strategic]
        maker = self.random.choice(makers)
        if maker == self._update:
            return self._update(kind, name, subresource, live)
        return maker(kind, name, subresource)

    def _slots(self, kind: Kind, subresource: str) -> Slots:
        if not subresource:
            return kind.slots
        return [*kind.status_slots, *kind.status_slots, *kind.slots]

    def _update(self, kind: Kind, name: str, subresource: str, live: Document) -> Step:
        body = copy.deepcopy(live) or self._whole(kind, name)
        for field in ("resourceVersion", "uid", "creationTimestamp", "generation"):
            body["metadata"].pop(field, None)
        self._fill(body, self._slots(kind, subresource))
        for path, key, elements in kind.lists:
            if self.random.random() < 0.2:
                put(body, path, self._elements(key, elements))
        for path, _ in self.random.sample(kind.slots, 2):
            if self.random.random() < 0.3:
                parent = look(body, path[:-1])
                if isinstance(parent, dict):
                    parent.pop(path[-1], None)
        self._forget_managers(body)
        return Step("PUT", body, subresource=subresource, manager=self._manager())

    def _forget_managers(self, body: Document) -> None:
        """Change managedFields like clients that use them, or that ignore them."""
        managed = self.random.random()
        if managed < 0.05:
            body["metadata"]["managedFields"] = [{}]
        elif managed < 0.1:
            body["metadata"]["managedFields"] = []
        elif managed < 0.3:
            body["metadata"].pop("managedFields", None)
        elif managed < 0.35 and body["metadata"].get("managedFields"):
            body["metadata"]["managedFields"].pop()

    def _merge_patch(self, kind: Kind, name: str, subresource: str) -> Step:
        body: Any = {}
        self._fill(body, self._slots(kind, subresource), nulls=0.3)
        for path, key, elements in kind.lists:
            if self.random.random() < 0.2:
                put(body, path, self._elements(key, elements))
        if self.random.random() < 0.03:
            body = self.random.choice([[], "x", None, {"metadata": None}])
        return Step("PATCH", body, MERGE_PATCH, subresource, self._manager())

    def _json_patch(self, kind: Kind, name: str, subresource: str) -> Step:
        operations = []
        slots = self._slots(kind, subresource)
        lists = [(path, elements) for path, _, elements in kind.lists]
        for _ in range(self.random.randrange(1, 4)):
            path, values = self.random.choice([*slots, *lists])
            pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
            in_list = any(path == one[0] for one in lists)
            if in_list:
                pointer += "/" + self.random.choice(["-", "0", "1", "-1", "x", "01", "+0"])
            verbs = ["add", "add", "replace", "remove", "test", "copy", "move"]
            if kind.is_custom and subresource:
                verbs = verbs[:5]  # values of another type would end the tracking, then be reset
            operation = {
                "op": self.random.choice(verbs),
                "path": pointer,
            }
            if operation["op"] in {"copy", "move"}:
                source, _ = self.random.choice(slots)
                operation["from"] = "/" + "/".join(part.replace("/", "~1") for part in source)
            else:
                operation["value"] = self.random.choice([*values, None])
            if operation["op"] == "test" and not _is_plain(operation["value"]):
                operation["value"] = "1"  # upstream compares the JSON text of strings
            if self.random.random() < 0.02:
                operation.pop(self.random.choice(list(operation)))
            if self.random.random() < 0.02:
                operation["op"] = "bogus"
            operations.append(operation)
        body: Any = operations
        if self.random.random() < 0.03:
            body = self.random.choice(
                [{}, "x", None, [1], [{"op": 1}], [{"op": "replace", "path": "", "value": []}], []]
            )
        return Step("PATCH", body, JSON_PATCH, subresource, self._manager())

    def _strategic(self, kind: Kind, name: str, subresource: str) -> Step:
        body: Any = {}
        self._fill(body, self._slots(kind, subresource), nulls=0.3)
        for path, key, elements in kind.lists:
            if self.random.random() < 0.3:
                self._strategic_list(body, path, key, elements)
        # With both the outcome depends on the order of a Go map.
        if self.random.random() < 0.2 and "finalizers" not in (body.get("metadata") or {}):
            put(body, ("metadata", "$deleteFromPrimitiveList/finalizers"), ["x/a"])
        if self.random.random() < 0.05:
            put(
                body,
                ("metadata", "labels", "$patch"),
                self.random.choice(["delete", "replace", "merge", 1]),
            )
        if self.random.random() < 0.05 and kind.kind == "Deployment":
            put(
                body,
                ("spec", "strategy", "$retainKeys"),
                self.random.choice([["type"], ["type", "rollingUpdate"], "x", []]),
            )
        if self.random.random() < 0.03:
            body = self.random.choice([[], "x", None, {"$patch": "delete"}, {"metadata": None}])
        return Step("PATCH", body, STRATEGIC, subresource, self._manager())

    def _strategic_list(
        self, body: Document, path: tuple[str, ...], key: str, elements: list[Document]
    ) -> None:
        chosen: list[Any] = list(self._elements(key, elements))
        for one in list(chosen):
            chance = self.random.random()
            if chance < 0.15:
                one["$patch"] = "delete"
            elif chance < 0.2:
                one["$patch"] = self.random.choice(["replace", "merge", "x"])
            elif chance < 0.23:
                del one[key]
            elif chance < 0.25:
                chosen.append("text")
            elif chance < 0.35 and len(one) > 1:
                one[self.random.choice([name for name in one if name != key])] = None
        if self.random.random() < 0.85:
            put(body, path, chosen)
        if self.random.random() < 0.3:
            order = [{key: one[key]} for one in elements if self.random.random() < 0.8]
            order = list({json.dumps(one): one for one in order}.values())
            if self.random.random() < 0.5:
                self.random.shuffle(order)
            put(body, (*path[:-1], f"$setElementOrder/{path[-1]}"), order)

    def _apply(self, kind: Kind, name: str, subresource: str) -> Step:
        body = self._bare(kind, name)
        if self.random.random() < 0.5 or kind.kind == "Pod":
            body |= copy.deepcopy(kind.base)
        self._fill(body, self._slots(kind, subresource), nulls=0.05)
        for path, key, elements in kind.lists:
            if self.random.random() < 0.5:
                put(body, path, self._elements(key, elements))
        chance = self.random.random()
        if chance < 0.02:
            body["metadata"]["managedFields"] = self.random.choice([[], [{}], None])
        elif chance < 0.04:
            body["apiVersion"] = "v9"
        elif chance < 0.06:
            body["kind"] = "Other"
        elif chance < 0.14:
            path, _ = self.random.choice(self._slots(kind, subresource))
            put(body, path, self.random.choice([1, "x", True, [], {"a": 1}, [1], ["x", None]]))
            if isinstance(body.get("spec"), dict):
                body["spec"].pop("bogus", None)
        _keep_one_problem(body)
        force = self.random.random() < 0.5
        return Step("PATCH", body, APPLY, subresource, self._manager(), force)
