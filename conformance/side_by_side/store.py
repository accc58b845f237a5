"""The objects of an API server, from watches.

Owns the copy, and the count of its changes. Never writes.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TypeAlias

from conformance.side_by_side.steps import Obj, path_of
from kubesched.testing import Api, ApiServer

WATCHED = ("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim")
# Watches have a timeout, so that their threads end after the server.
_WATCH_S = 600
_RETRY_S = 0.1

Objects: TypeAlias = dict[str, Obj]


def key_of(obj: Mapping[str, Obj]) -> str:
    """Return namespace and name, or the name alone."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class Store:
    """The objects of a server by kind and key."""

    def __init__(self, server: ApiServer, *, ignored_namespace: str) -> None:
        self.changed = threading.Condition()
        self.change_count = 0
        """Changes outside of the ignored namespace."""
        self.names: dict[str, str] = {}
        """Keys of all pods ever seen, by uid."""
        self._server = server
        self._ignored = ignored_namespace
        self._objects: dict[str, Objects] = {kind: {} for kind in WATCHED}
        self._versions = dict.fromkeys(WATCHED, 0)
        self._is_closed = False
        for kind in WATCHED:
            name = f"watch-{kind}"
            threading.Thread(target=self._follow, args=(kind,), name=name, daemon=True).start()

    def close(self) -> None:
        """Stop; the watches end with their server."""
        self._is_closed = True

    def objects(self, kind: str) -> Objects:
        """Return the objects of a kind, without the ignored namespace."""
        with self.changed:
            return {
                key: obj
                for key, obj in sorted(self._objects[kind].items())
                if obj["metadata"].get("namespace") != self._ignored
            }

    def get(self, kind: str, key: str) -> Obj | None:
        """Return one object."""
        with self.changed:
            return self._objects[kind].get(key)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition is true; it is evaluated after every change."""
        deadline = perf_counter() + timeout_s
        with self.changed:
            while not condition():
                left_s = deadline - perf_counter()
                if left_s <= 0:
                    return False
                self.changed.wait(left_s)
        return True

    def wait_seen(self, kind: str, version: int, timeout_s: float = 30.0) -> None:
        """Wait until the copy of a kind has reached a resourceVersion."""
        if kind not in WATCHED:
            return
        if not self.wait_for(lambda: self._versions[kind] >= version, timeout_s):
            raise TimeoutError(f"the watch of {kind} did not reach version {version}")

    def wait_gone(self, kind: str, key: str, timeout_s: float = 30.0) -> None:
        """Wait until an object is deleted or terminating."""
        if kind not in WATCHED:
            return

        def is_deleted() -> bool:
            obj = self._objects[kind].get(key)
            return obj is None or "deletionTimestamp" in obj["metadata"]

        if not self.wait_for(is_deleted, timeout_s):
            raise TimeoutError(f"the watch of {kind} did not show the deletion of {key}")

    def _follow(self, kind: str) -> None:
        while not self._is_closed:
            try:
                with self._server.api() as api:
                    self._list_and_watch(kind, api)
            except (OSError, http.client.HTTPException, AssertionError):
                with self.changed:
                    self.changed.wait(_RETRY_S)

    def _list_and_watch(self, kind: str, api: Api) -> None:
        path = path_of(kind)
        listed = api.get(path).must(200).json
        version = listed["metadata"]["resourceVersion"]
        with self.changed:
            self._objects[kind] = {}
            for obj in listed["items"]:
                self._take(kind, "ADDED", obj)
            self._versions[kind] = int(version)
            self.changed.notify_all()
        query = {"resourceVersion": version, "timeoutSeconds": _WATCH_S}
        with api.watch(path, query=query, timeout_s=_WATCH_S + 10) as watch:
            for event in watch:
                if event["type"] == "ERROR" or self._is_closed:
                    return
                with self.changed:
                    self._take(kind, event["type"], event["object"])
                    self.changed.notify_all()

    def _take(self, kind: str, change: str, obj: Obj) -> None:
        metadata = obj["metadata"]
        key = key_of(obj)
        if change == "DELETED":
            self._objects[kind].pop(key, None)
        else:
            self._objects[kind][key] = obj
        if kind == "Pod":
            self.names[metadata["uid"]] = key
        self._versions[kind] = int(metadata["resourceVersion"])
        if metadata.get("namespace") != self._ignored:
            self.change_count += 1
