"""Parses the tag of an image reference, for the default pull policy.

Upstream: pkg/util/parsers/parsers.go ParseImageName, github.com/distribution/reference
"""

from __future__ import annotations

import re
from functools import lru_cache

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}


@lru_cache(maxsize=4096)
def tag_of(image: str) -> str:
    """Return the tag of an image: `latest` by default, empty with a digest or if invalid."""
    if _IDENTIFIER.fullmatch(image):
        return ""
    first, slash, _ = image.partition("/")
    is_domain = slash and (
        any(char in first for char in ".:") or first == "localhost" or first.lower() != first
    )
    domain, rest = (first, image[len(first) + 1 :]) if is_domain else ("docker.io", image)
    if domain == "index.docker.io":
        domain = "docker.io"
    if domain == "docker.io" and "/" not in rest:
        rest = f"library/{rest}"
    path = rest.partition(":")[0]
    found = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if found is None or path.lower() != path or len(found["name"]) > 255:
        return ""
    if not _is_digest(found["digest"]):
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")


def _is_digest(digest: str | None) -> bool:
    if digest is None:
        return True
    algorithm, _, encoded = digest.partition(":")
    return _DIGESTS.get(algorithm) == len(encoded) and encoded.lower() == encoded


def default_pull_policy(image: str) -> str:
    """Return the default pull policy of an image."""
    return "Always" if tag_of(image) == "latest" else "IfNotPresent"
