"""Strategies of ConfigMap, Secret and ServiceAccount.

Upstream: pkg/registry/core/{configmap,secret,serviceaccount}/strategy.go,
pkg/apis/core/validation/validation.go ValidateConfigMap, ValidateSecret
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, config_key_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_SIZE_MAX = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"
_PEM = re.compile(
    r"^-----BEGIN ([^\n]*)-----\s*$.*?^-----END \1-----\s*$", re.DOTALL | re.MULTILINE
)
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"


class ConfigMapStrategy(Strategy):
    """Strategy of ConfigMaps."""

    checks_metadata_again = True
    bumps_generation = False
    has_status = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate keys and size; return the errors."""
        out: list[Problem] = []
        data, binary = document.get("data") or {}, document.get("binaryData") or {}
        for key in data:
            texts = config_key_problems(key)
            out.extend(invalid(f"data[{key}]", key, text) for text in texts)
            if key in binary:
                text = "duplicate of key present in binaryData"
                out.append(invalid(f"data[{key}]", key, text))
        for key in binary:
            texts = config_key_problems(key)
            out.extend(invalid(f"binaryData[{key}]", key, text) for text in texts)
        size = sum(len(value.encode()) for value in data.values())
        if size + _decoded_size(binary) > _SIZE_MAX:
            out.append(too_long("", _SIZE_MAX))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a ConfigMap."""
        out: list[Problem] = []
        _check_sealed(new, old, ("data", "binaryData"), out)
        return out + self.validate_create(new, request)


def _check_sealed(new: Document, old: Document, names: tuple[str, ...], out: list[Problem]) -> None:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        out.append(forbidden_field("immutable", _SEALED))
    out.extend(
        forbidden_field(name, _SEALED)
        for name in names
        if (new.get(name) or {}) != (old.get(name) or {})
    )


def _decoded_size(data: dict[str, str]) -> int:
    return sum(len(value) // 4 * 3 - value[-2:].count("=") for value in data.values())


class SecretStrategy(Strategy):
    """Strategy of Secrets."""

    checks_metadata_again = True
    bumps_generation = False
    has_status = False

    def default(self, document: Document) -> None:
        """Default the type, and convert stringData to data."""
        if not document.get("type"):
            document["type"] = "Opaque"
        texts = document.pop("stringData", None)
        if texts:
            encoded = {
                key: base64.b64encode(value.encode()).decode() for key, value in texts.items()
            }
            document["data"] = {**(document.get("data") or {}), **encoded}

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate keys, size and the type's required keys; return the errors."""
        out: list[Problem] = []
        data = document.get("data") or {}
        for key in data:
            texts = config_key_problems(key)
            out.extend(invalid(f"data[{key}]", key, text) for text in texts)
        if _decoded_size(data) > _SIZE_MAX:
            out.append(too_long("data", _SIZE_MAX))
        _check_type(document, data, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a Secret."""
        out: list[Problem] = []
        if (new.get("type") or "") != (old.get("type") or ""):
            out.append(invalid("type", new.get("type") or "", IMMUTABLE))
        _check_sealed(new, old, ("data",), out)
        return out + self.validate_create(new, request)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about an invalid certificate and key."""
        if document.get("type") != "kubernetes.io/tls":
            return []
        data = document.get("data") or {}
        certificate, key = (_pem_types(data.get(name) or "") for name in ("tls.crt", "tls.key"))
        text = _certificate_problem(certificate) or _key_problem(key)
        return [f"tls: {text}"] if text else []

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        return {
            "metadata.name": name_of(document),
            "metadata.namespace": namespace_of(document),
            "type": document.get("type") or "",
        }


def _check_type(secret: Document, data: dict[str, str], out: list[Problem]) -> None:
    kind = secret.get("type")
    if kind == "kubernetes.io/service-account-token":
        key = "kubernetes.io/service-account.name"
        if not (secret["metadata"].get("annotations") or {}).get(key):
            out.append(required(f"metadata.annotations[{key}]"))
    elif kind in {"kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"}:
        key = ".dockercfg" if kind.endswith("dockercfg") else ".dockerconfigjson"
        _check_json(data.get(key), f"data[{key}]", out)
    elif kind == "kubernetes.io/basic-auth":
        if not data.keys() & {"username", "password"}:
            out += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            out.append(required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        out.extend(required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data)


def _pem_types(encoded: str) -> list[str]:
    """Return the types of the PEM blocks in a value of a Secret."""
    text = base64.b64decode(encoded).decode("latin-1")
    return [match[1] for match in _PEM.finditer(text)]


# Parity: crypto/tls/tls.go X509KeyPair. Differs: a mismatched pair is not detected.
def _certificate_problem(types: list[str]) -> str:
    if "CERTIFICATE" in types:
        return ""
    if not types:
        return "failed to find any PEM data in certificate input"
    if len(types) == 1 and types[0].endswith("PRIVATE KEY"):
        return (
            "failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    return (
        'failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of '
        f"the following types: [{' '.join(types)}]"
    )


def _key_problem(types: list[str]) -> str:
    if any(one == "PRIVATE KEY" or one.endswith(" PRIVATE KEY") for one in types):
        return ""
    if not types:
        return "failed to find any PEM data in key input"
    if types == ["CERTIFICATE"]:
        return "found a certificate rather than a key in the PEM for the private key"
    return (
        'failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping '
        f"PEM blocks of the following types: [{' '.join(types)}]"
    )


def _check_json(encoded: str | None, path: str, out: list[Problem]) -> None:
    if encoded is None:
        out.append(required(path))
        return
    text = _json_problem(base64.b64decode(encoded))
    if text:
        out.append(invalid(path, "<secret contents redacted>", text))


def _json_problem(data: bytes) -> str:
    """Return why data is not a JSON object; common errors have Go's messages."""
    if not data.strip():
        return "unexpected end of JSON input"
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        position = getattr(error, "pos", 0)
        if position >= len(data):
            return "unexpected end of JSON input"
        found = chr(data[position])
        return f"invalid character '{found}' looking for beginning of value"
    if isinstance(value, dict):
        return ""
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    if value is None:
        return ""
    kind = names[type(value)]
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


class ServiceAccountStrategy(Strategy):
    """Strategy of ServiceAccounts."""

    bumps_generation = False
    has_status = False
    returns_deleted_object = True

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Keep only the names of secrets."""
        _clean_secrets(document)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep only the names of secrets."""
        _clean_secrets(new)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about an account."""
        before = ((old or {}).get("metadata") or {}).get("annotations") or {}
        now = document["metadata"].get("annotations") or {}
        if _ENFORCE in before or _ENFORCE not in now:
            return []
        text = (
            "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )
        return [f"metadata.annotations[{_ENFORCE}]: {text}"]


def _clean_secrets(account: Document) -> None:
    for index, secret in enumerate(account.get("secrets") or ()):
        name = secret.get("name")
        account["secrets"][index] = {"name": name} if name else {}
