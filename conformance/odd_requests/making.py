"""Random requests: from nearly valid to not HTTP at all.

Owns the requests. Paths, documents and queries start from served resources and are wrong in few
places, so that they pass the first checks; other requests are invalid HTTP. The seed determines all
of them.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_from_bytes

from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.cluster.apiserver.resources import Resource

METHODS = (*["GET"] * 10, *["POST"] * 20, *["PUT"] * 8, *["PATCH"] * 16, *["DELETE"] * 3,
           "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "BREW")  # fmt: skip
NAMES = ("a", "b", "kubernetes", "default", "kube-system", "x" * 254, "A_b", "..", ".", "%2e%2e",
         "a%2Fb", "%00", "%ff", "é", "a b", "system:node", "*", "")  # fmt: skip
PAGES = ("/", "/api", "/apis", "/version", "/healthz", "/readyz/ping", "/livez?verbose", "/metrics",
         "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/../../etc/passwd",
         "/apis/nothing.example.com/v1", "/api/v2/pods", "//", "/api//v1//pods", "/api/v1/",
         "/api/v1/watch/pods", "/api/v1/watch/", "/api/v1/watch/namespaces/a/pods/b",
         "/api/v1/namespaces/a/bindings", "/.well-known/openid-configuration", "/openid/v1/jwks",
         "/api/v1/proxy/nodes/a", "/apis/apps/v1/namespaces/a/deployments/b/scale/c/d",
         "*", "http://elsewhere/api/v1/pods", "a:1", "?", "/api/v1/pods?%", "/%")  # fmt: skip
MEDIA_TYPES = ("application/json", "application/json", "application/json", "application/yaml",
               "application/vnd.kubernetes.protobuf", "application/json-patch+json",
               "application/merge-patch+json", "application/strategic-merge-patch+json",
               "application/apply-patch+yaml", "text/html", "application/x-www-form-urlencoded",
               "multipart/form-data", "", ";", "application/json; charset=utf-16",
               "application/apply-patch+cbor", "\x80")  # fmt: skip
PATCH_TYPES = MEDIA_TYPES[5:9]
ACCEPTS = ("application/json", "*/*", "", ";;;", "application/json;as=Table;g=meta.k8s.io;v=v1",
           "application/json;as=Table;g=meta.k8s.io;v=v9", "application/yaml", "text/*;q=x",
           "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
           "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
           "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
           "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
           "application/vnd.kubernetes.protobuf", "," * 500)  # fmt: skip
TEXTS = ("", "a", "0", "-1", "1", "true", "false", "99999999999999999999", "1e9", "NaN", "\x00",
         "\ud800", "é", "a=b", "a in (b", "!a", "a,,b", "metadata.name=a", "spec.nodeName=",
         "status.phase!=Running", "x" * 5000, "All", "Strict", "Warn", "Exact", "NotOlderThan",
         "Foreground", "Orphan", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
         "2024-01-02T03:04:05Z", "10.0.0.1", "1Gi", "100m", "bad key!", "{", "%s")  # fmt: skip
PARAMETERS = ("limit", "continue", "watch", "resourceVersion", "resourceVersionMatch",
              "labelSelector", "fieldSelector", "timeoutSeconds", "timeout", "dryRun",
              "fieldManager", "fieldValidation", "force", "pretty", "includeObject",
              "allowWatchBookmarks", "sendInitialEvents", "gracePeriodSeconds",
              "propagationPolicy", "orphanDependents", "nothing")  # fmt: skip
HEADERS = ("Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Extra-a%zz",
           "Impersonate-Uid", "Accept-Encoding", "Content-Encoding", "If-None-Match", "Range",
           "User-Agent", "Origin", "X-Forwarded-For", "Cookie", "Upgrade", "Expect",
           "X-Remote-User", "Audit-ID", "Transfer-Encoding", "Host")  # fmt: skip
HEADER_VALUES = ("", "a", "Bearer", "Bearer a", "Bearer a.b.c", "Basic YTpi", "gzip", "identity",
                 "system:admin", "system:serviceaccount:a", "system:masters", "websocket", "h2c",
                 "100-continue", "é\x80", "x" * 7000, "bytes=0-", "chunked", "deflate, br",
                 "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOjF9.AA",
                 "kubectl/v1.36 (é)")  # fmt: skip
INTS = (-(2**63), -(2**31) - 1, -1, 0, 1, 3, 80, 65536, 2**31, 2**53 + 1, 2**63, 10**30)
UNEXPECTED: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"": None}, [[]],
                               {"a": {"b": []}}, "\x00", 2**64)  # fmt: skip
_CHUNKED = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
_UPGRADE = (
    b"GET /api HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: YWJjZGVmZ2hpamtsbW5vcA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
NOT_HTTP = (b"", b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 32, b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n",
            b"GET / HTTP/1.1\r\n: a\r\n\r\n", b"\x00\xff" * 50,
            b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: " + b"a" * 2_000_000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
            b"POST /api/v1/pods HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
            b"POST /api/v1/pods HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            _CHUNKED + b"\r\nZZ\r\n",
            _CHUNKED + b"Content-Length: 3\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n",
            _UPGRADE + b"\x81\x05hello" * 9)  # fmt: skip
POINTERS = ("/metadata/labels/a", "/spec", "", "/", "a", "/metadata/name", "/spec/containers/-",
            "/spec/containers/0", "/spec/replicas", "/metadata/~2", "/kind", "/spec/0")  # fmt: skip
BODY_BYTES_MAX = 3 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, as bytes."""

    data: bytes
    is_head: bool = False
    is_http: bool = True
    """Whether it is complete HTTP, so that it must get a response."""

    def __str__(self) -> str:
        return repr(self.data[:1500]) + (f" … {len(self.data)} bytes" * (len(self.data) > 1500))


class Maker:
    """Generates requests."""

    def __init__(
        self, seed: int, resources: Sequence[Resource], bases: Sequence[dict[str, Any]]
    ) -> None:
        self.rng = random.Random(seed)
        self._resources = resources
        self._bases: dict[tuple[str, str], list[str]] = {}
        """Valid documents, as text, by apiVersion and kind."""
        for base in bases:
            key = (base["apiVersion"], base["kind"])
            self._bases.setdefault(key, []).append(json.dumps(base))

    def request(self) -> Sent:
        """Return the next request."""
        rng = self.rng
        if rng.random() < 0.06:
            return Sent(rng.choice(NOT_HTTP), is_http=False)
        resource = rng.choice(self._resources)
        if rng.random() < 0.6:
            keys = [(one.api_version, one.kind) for one in self._resources]
            resource = self._resources[keys.index(rng.choice(list(self._bases)))]
        method = rng.choice(METHODS)
        target = rng.choice(PAGES) if rng.random() < 0.1 else self._path(resource, method)
        if rng.random() < 0.3:
            target += ("&" if "?" in target else "?") + self._query()
        if "watch" in target:
            target += ("&" if "?" in target else "?") + "timeoutSeconds=1"
        body = self._body(resource, method)
        return self._written(method, target, body)

    def _written(self, method: str, target: str, body: bytes) -> Sent:
        rng = self.rng
        lines = [f"{method} {target} HTTP/1.{rng.choice('1111110')}", "Host: localhost"]
        types = PATCH_TYPES if method == "PATCH" and rng.random() < 0.8 else MEDIA_TYPES[:3]
        chosen = rng.choice(types) if rng.random() < 0.9 else rng.choice(MEDIA_TYPES)
        lines.append(f"Content-Type: {chosen}")
        accept = ACCEPTS[0] if rng.random() < 0.85 else rng.choice(ACCEPTS)
        lines.append(f"Accept: {accept}")
        is_malformed = False
        while rng.random() < 0.15:
            header = rng.choice(HEADERS)
            is_malformed = is_malformed or header in {"Transfer-Encoding", "Expect", "Upgrade"}
            lines.append(f"{header}: {rng.choice(HEADER_VALUES)}")
        if rng.random() < 0.2:
            lines.append("Transfer-Encoding: chunked")
            body = self._chunked(body)
        elif body or rng.random() < 0.5:
            length = len(body) if rng.random() < 0.97 else rng.choice((0, 1, len(body) + 5))
            is_malformed = is_malformed or length != len(body)
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")
        return Sent(head + body, is_head=method == "HEAD", is_http=not is_malformed)

    def _chunked(self, body: bytes) -> bytes:
        parts = []
        while body:
            size = self.rng.choice((1, 7, 100, 65536))
            parts.append(b"%x\r\n%s\r\n" % (len(body[:size]), body[:size]))
            body = body[size:]
            if len(parts) > 50:
                if body:
                    parts.append(b"%x\r\n%s\r\n" % (len(body), body))
                break
        return b"".join(parts) + b"0\r\n\r\n"

    def _path(self, resource: Resource, method: str) -> str:
        rng = self.rng
        parts = ["apis", resource.group] if resource.group else ["api"]
        parts.append(resource.version)
        is_in = resource.is_namespaced if rng.random() < 0.95 else not resource.is_namespaced
        if is_in and (method != "GET" or rng.random() < 0.7):
            parts += ["namespaces", rng.choice(("default", rng.choice(NAMES)))]
        parts.append(resource.resource)
        is_one = method != "POST" and (method != "GET" or rng.random() < 0.5)
        if is_one == (rng.random() < 0.92):
            parts.append(rng.choice(("a", "b", rng.choice(NAMES))))
            below = [*resource.views, *resource.actions, *resource.unserved, "scale", "nothing"]
            if rng.random() < 0.35:
                parts.append(rng.choice(below))
        return "/" + "/".join(part if "%" in part else quote(part) for part in parts)

    def _query(self) -> str:
        rng = self.rng
        pairs = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
            value = quote_from_bytes(text) if rng.random() < 0.95 else "%zz%ff"
            pairs.append(f"{rng.choice(PARAMETERS)}={value}")
        return "&".join(pairs)

    def _body(self, resource: Resource, method: str) -> bytes:
        rng = self.rng
        if method in {"GET", "HEAD"} and rng.random() < 0.9:
            return b""
        chance = rng.random()
        if chance < 0.01:
            return b'{"a":"' + b"a" * (BODY_BYTES_MAX + rng.choice((-100, 1, 200_000))) + b'"}'
        if chance < 0.02:
            return b"[" * rng.choice((250, 2_000, 200_000))
        if chance < 0.03:
            depth = rng.choice((150, 400, 20_000))
            return b'{"a":' * depth + b"1" + b"}" * depth
        if chance < 0.04:
            return gzip.compress(b" " * rng.choice((10, 20_000_000)), 1)
        if chance < 0.05:
            return rng.randbytes(rng.choice((1, 30, 3000)))
        data = self._encoded(self._value_for(resource, method))
        if rng.random() < 0.1 and data:
            return self._damaged(data)
        return data

    def _value_for(self, resource: Resource, method: str) -> Any:
        rng = self.rng
        if method == "PATCH" and rng.random() < 0.3:
            return [self._operation() for _ in range(rng.choice((1, 2, 3)))]
        if method == "DELETE" and rng.random() < 0.7:
            return {
                rng.choice(PARAMETERS[-5:]): rng.choice((*TEXTS[:9], *UNEXPECTED)),
                "preconditions": rng.choice(({"uid": "a"}, {"resourceVersion": "1"}, *UNEXPECTED)),
            }
        document = self._document(resource)
        while rng.random() < 0.2:
            self._spoil(document)
        return document

    def _operation(self) -> Any:
        rng = self.rng
        operation = {
            "op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "jump", 1)),
            "path": rng.choice(POINTERS),
            "value": rng.choice((*UNEXPECTED, *TEXTS)),
            "from": rng.choice(POINTERS),
        }
        for name in list(operation):
            if rng.random() < 0.1:
                del operation[name]
        return operation if rng.random() < 0.95 else rng.choice(UNEXPECTED)

    def _document(self, resource: Resource) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind}
        bases = self._bases.get((resource.api_version, resource.kind))
        if bases and rng.random() < 0.8:
            made = json.loads(rng.choice(bases))
            made["metadata"]["name"] = rng.choice(("a", "b", "c"))
            for _ in range(rng.choice((0, 0, 1, 2))):
                self._extend(resource.schema, made)
            return made
        if resource.schema is not None:
            made |= self._struct(resource.schema, 0)
        metadata = made.get("metadata")
        if not isinstance(metadata, dict) or rng.random() < 0.7:
            made["metadata"] = metadata = metadata if isinstance(metadata, dict) else {}
            metadata["name"] = rng.choice(("a", "b", "c", "d.example.com"))
            if rng.random() < 0.9:
                for name in ("namespace", "resourceVersion", "managedFields", "uid"):
                    metadata.pop(name, None)
        return made

    def _extend(self, kind: Type | None, place: Any) -> None:
        """Set a field somewhere in a document to another value of its type."""
        rng = self.rng
        for depth in range(9):
            if isinstance(kind, ListOf) and isinstance(place, list) and place:
                kind, place = kind.element, rng.choice(place)
            elif isinstance(kind, Struct) and isinstance(place, dict) and kind.fields:
                known = [one for one in place if one in kind.fields] if rng.random() < 0.7 else []
                name = rng.choice(known or list(kind.fields))
                inner = kind.fields[name].type
                if depth and (name not in place or rng.random() < 0.2):
                    place[name] = self._value(inner, 3)
                    return
                kind, place = inner, place.get(name)
            else:
                return

    def _struct(self, kind: Struct, depth: int) -> dict[str, Any]:
        rng = self.rng
        names = [one for one in kind.fields if one not in {"apiVersion", "kind"}]
        count = min(len(names), rng.choice((0, 1, 2, 3, 5)) if depth < 7 else 0)
        chosen = rng.sample(names, count)
        if not depth:
            chosen += [one for one in ("metadata", "spec") if one in names and one not in chosen]
        return {name: self._value(kind.fields[name].type, depth + 1) for name in chosen}

    def _value(self, kind: Type, depth: int) -> Any:
        rng = self.rng
        if rng.random() < 0.01:
            return self._unexpected()
        if isinstance(kind, Struct):
            return self._struct(kind, depth)
        if isinstance(kind, ListOf):
            return [self._value(kind.element, depth + 1) for _ in range(rng.choice((0, 1, 1, 2)))]
        if isinstance(kind, MapOf):
            keys = ("a", "cpu", "memory", "example.com/x", rng.choice(TEXTS))
            count = rng.choice((0, 1, 2))
            return {key: self._value(kind.value, depth + 1) for key in rng.sample(keys, count)}
        return self._scalar(kind)

    def _unexpected(self) -> Any:
        return copy.deepcopy(self.rng.choice(UNEXPECTED))

    def _scalar(self, scalar: Scalar) -> Any:
        rng = self.rng
        if scalar.kind is ScalarKind.BOOL:
            return rng.random() < 0.5
        if scalar.kind in {ScalarKind.INT32, ScalarKind.INT64, ScalarKind.FLOAT}:
            return rng.choice(INTS) if rng.random() < 0.3 else rng.randint(0, 100)
        if scalar.kind is ScalarKind.QUANTITY:
            return rng.choice(("1", "100m", "1Gi", "-1", "1e400", "0.0000000001", "x", 7, 1.5))
        if scalar.kind in {ScalarKind.TIME, ScalarKind.MICRO_TIME}:
            return rng.choice(("2024-01-02T03:04:05Z", "9999-12-31T23:59:60Z", "x", None))
        if scalar.kind is ScalarKind.INT_OR_STRING:
            return rng.choice((80, "http", "50%", "", -1))
        if scalar.kind is ScalarKind.DURATION:
            return rng.choice(("1s", "1h2m", "x", 5))
        if scalar.kind is ScalarKind.BYTES:
            return rng.choice(("", "YQ==", "e30=", "?"))
        if scalar.kind is ScalarKind.ANY:
            return self._unexpected()
        return rng.choice(TEXTS) if rng.random() < 0.5 else rng.choice(("a", "b", "Always", "v1"))

    def _spoil(self, document: dict[str, Any]) -> None:
        """Replace a random part of a document by an unexpected value."""
        rng = self.rng
        place: Any = document
        while True:
            if isinstance(place, dict) and place:
                key: Any = rng.choice(list(place))
            elif isinstance(place, list) and place:
                key = rng.randrange(len(place))
            else:
                return
            if rng.random() < 0.3 or not isinstance(place[key], dict | list):
                place[key] = self._unexpected()
                return
            place = place[key]

    def _encoded(self, value: Any) -> bytes:
        is_compact = self.rng.random() < 0.8
        text = json.dumps(value, separators=(",", ":") if is_compact else None)
        return text.encode()

    def _damaged(self, data: bytes) -> bytes:
        rng = self.rng
        at = rng.randrange(len(data))
        chance = rng.random()
        if chance < 0.4:
            return data[:at]
        if chance < 0.7:
            return data[:at] + rng.randbytes(1) + data[at + 1 :]
        return data[:at] + data[at // 2 :]
