"""/openapi/v2 and /openapi/v3, from shipped data and custom resources.

Upstream: k8s.io/kube-openapi pkg/handler, pkg/handler3
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.data import read_data

JSON: Final = "application/json"
PROTO_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Clients of all versions request the form with @.
_ASKED: Final = {
    "*/*": JSON,
    "application/*": JSON,
    JSON: JSON,
    PROTO_V2: PROTO_V2,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": PROTO_V2,
}


@dataclass(frozen=True, slots=True)
class ResourceResponse:
    """A response: 200, 301, 404 or 406."""

    status: int
    content_type: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Published:
    """Schemas and paths of one version of a custom kind."""

    definitions_v2: dict[str, Any]
    definitions_v3: dict[str, Any]
    paths_v2: dict[str, Any]
    paths_v3: dict[str, Any]


class OpenApi:
    """The OpenAPI documents of one server."""

    def __init__(self) -> None:
        # By group version, then by plural.
        self._custom: dict[str, dict[str, Published]] = {}
        self._made: dict[str, bytes] = {}

    def publish(self, group: str, version: str, plural: str, part: Published) -> None:
        """Add or replace the documents of a custom kind."""
        self._custom.setdefault(f"apis/{group}/{version}", {})[plural] = part
        self._made.clear()

    def withdraw(self, group: str, version: str, plural: str) -> None:
        """Remove the documents of a custom kind."""
        path = f"apis/{group}/{version}"
        parts = self._custom.get(path, {})
        parts.pop(plural, None)
        if not parts:
            self._custom.pop(path, None)
        self._made.clear()

    def respond(self, path: str, accept: str, requested_hash: str = "") -> ResourceResponse:
        """Return the response to a GET of a path that starts with /openapi/."""
        rest = path.removeprefix("/openapi/").rstrip("/")
        if rest == "v2":
            return self._second(accept)
        if rest == "v3":
            return ResourceResponse(200, JSON, msgspec.json.encode({"paths": self._index()}))
        if rest.startswith("v3/"):
            return self._third(rest.removeprefix("v3/"), accept, requested_hash)
        return ResourceResponse(404)

    def _second(self, accept: str) -> ResourceResponse:
        media_type = _accepted(accept)
        if media_type is None:
            return ResourceResponse(406)
        body = self._cached(media_type, self._proto_v2 if media_type == PROTO_V2 else self._json_v2)
        etag = f'"{_hash(body)}"'
        return ResourceResponse(
            200, media_type, body, {"Etag": etag, "Vary": "Accept-Encoding, Accept"}
        )

    def _json_v2(self) -> bytes:
        data = read_data("openapi-v2.json.gz")
        if not self._custom:
            return data
        document = msgspec.json.decode(data)
        for parts in self._custom.values():
            for part in parts.values():
                document["definitions"].update(part.definitions_v2)
                document["paths"].update(part.paths_v2)
        return msgspec.json.encode(document)

    def _proto_v2(self) -> bytes:
        # Differs: the protobuf form omits custom kinds; clients use it only as a fallback.
        return read_data("openapi-v2.pb.gz")

    def _index(self) -> dict[str, Any]:
        names = sorted({*_shipped(), *self._custom})
        return {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hash_of(name)}"}
            for name in names
        }

    def _hash_of(self, name: str) -> str:
        return _hash(self._custom_v3(name)) if name in self._custom else _shipped()[name]

    def _third(self, name: str, accept: str, requested_hash: str) -> ResourceResponse:
        if name not in self._custom and name not in _shipped():
            return ResourceResponse(404)
        if _accepted(accept) != JSON:
            return ResourceResponse(406)
        found = self._hash_of(name)
        headers = {"Etag": f'"{found}"', "Vary": "Accept"}
        if requested_hash and requested_hash != found:
            headers["Location"] = f"/openapi/v3/{name}?hash={found}"
            return ResourceResponse(301, JSON, b"", headers)
        if requested_hash:
            headers["Cache-Control"] = "public, immutable"
        body = self._custom_v3(name) if name in self._custom else read_data(_file_of(name))
        return ResourceResponse(200, JSON, body, headers)

    def _custom_v3(self, name: str) -> bytes:
        return self._cached(name, lambda: self._make_v3(name))

    def _make_v3(self, name: str) -> bytes:
        schemas: dict[str, Any] = {}
        paths: dict[str, Any] = {}
        for part in self._custom[name].values():
            schemas.update(part.definitions_v3)
            paths.update(part.paths_v3)
        document = {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
            "paths": paths,
            "components": {"schemas": schemas | _shared_schemas()},
        }
        return msgspec.json.encode(document)

    def _cached(self, key: str, make: Any) -> bytes:
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = make()
        return made


def _accepted(accept: str) -> str | None:
    """Return the media type of the response; None if no accepted one is available."""
    if not accept:
        return JSON
    for part in accept.split(","):
        found = _ASKED.get(part.partition(";")[0].strip())
        if found is not None:
            return found
    return None


def _hash(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()


@lru_cache(maxsize=1)
def _shipped() -> dict[str, str]:
    """Return the shipped group versions, with the hashes of their files."""
    directory = resources.files("kubesched.cluster.apiserver.data").joinpath("openapi-v3")
    files = sorted(directory.iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".json.gz").replace("__", "/"): _hash(file.read_bytes())
        for file in files
        if file.name.endswith(".json.gz")
    }


def _file_of(name: str) -> str:
    return f"openapi-v3/{name.replace('/', '__')}.json.gz"


@lru_cache(maxsize=1)
def _shared_schemas() -> dict[str, Any]:
    """Return the schemas that every kind uses: metadata, Status, DeleteOptions, Scale."""
    document = msgspec.json.decode(read_data(_file_of("apis/apps/v1")))
    return {
        name: schema
        for name, schema in document["components"]["schemas"].items()
        if name.startswith(("io.k8s.apimachinery.", "io.k8s.api.autoscaling."))
    }
