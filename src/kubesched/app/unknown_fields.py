"""Fields that no version of a kind has: what a typing error leaves in a file.

Owns which objects are looked at: those written by hand. One that came from an API server was read
by it, and a cluster has a hundred thousand of those. Never refuses anything.
Upstream: kubectl's --validate, staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Whoever writes more by hand has a program for it, which does not mistype.
CHECKED_MAX = 200


def is_written_by_hand(tree: Mapping[str, Any]) -> bool:
    """Return whether an object looks as if no API server had stored it."""
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and not (
        metadata.get("uid") or metadata.get("resourceVersion")
    )


def unknown_fields(tree: Mapping[str, Any]) -> list[str]:
    """Return what an API server would warn of: `unknown field "spec.contaners"`."""
    # Many commands never read a manifest, and these are the types of all of Kubernetes.
    from kubesched.apiserver.schema.conform import WrongTypeError, conform_or_raise  # noqa: PLC0415
    from kubesched.apiserver.schema.load import schema_for  # noqa: PLC0415

    group, _, version = str(tree.get("apiVersion")).rpartition("/")
    schema = schema_for(group, version, str(tree.get("kind")))
    if schema is None:
        return []
    try:
        found = conform_or_raise(schema, dict(tree)).problems
    except WrongTypeError:
        return []  # Whoever reads the object has the words for that, and the place.
    return [text for text in found if text.startswith("unknown field ")]
