"""Warnings about volumes.

Upstream: pkg/api/pod/warnings.go, pkg/api/persistentvolumeclaim/util.go
"""

from __future__ import annotations

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.golang.strconv import go_quote

# By source: its name in paths, and the text.
_GONE = {
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
}
_GONE_LATER = {
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_FILES = {"configMap": "ConfigMap", "secret": "Secret", "downwardAPI": "DownwardAPI"}
# The path of a file, and kind and name of its source.
_File = tuple[str, tuple[str, str]]


def volume_warnings(volumes: list[Document], path: str) -> list[str]:
    """Return warnings about a pod's volumes."""
    found: list[str] = []
    for index, volume in enumerate(volumes):
        _gone(volume, _GONE, f"{path}[{index}]", found)
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            child = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            found.extend(claim_size_warnings(template.get("spec") or {}, child))
        _gone(volume, _GONE_LATER, f"{path}[{index}]", found)
    for volume in volumes:
        _overlaps(volume, found)
    return found


def _gone(volume: Document, kinds: dict[str, tuple[str, str]], path: str, found: list[str]) -> None:
    for kind, (field, text) in kinds.items():
        if volume.get(kind) is not None:
            found.append(f"{path}.{field}: {text}")


def claim_size_warnings(spec: Document, path: str) -> list[str]:
    """Return warnings about a claim's requested size."""
    found = []
    resources = spec.get("resources") or {}
    for which in ("requests", "limits"):
        text = (resources.get(which) or {}).get("storage")
        if text is not None and parse_quantity(text).milli_value() % 1000:
            problem = f"fractional byte value {go_quote(text)} is invalid, must be an integer"
            found.append(f"{path}.resources.{which}[storage]: {problem}")
    return found


def _overlaps(volume: Document, found: list[str]) -> None:
    name = volume.get("name") or ""
    for kind, title in _FILES.items():
        source = volume.get(kind)
        if source is not None and source.get("items"):
            about = (title, source.get("secretName" if kind == "secret" else "name") or "")
            files = [(item.get("path") or "", ("", "")) for item in source["items"]]
            _warn_of_overlapping_paths(files, name, about, found)
    projected = volume.get("projected")
    if projected is not None:
        files = []
        for source in projected.get("sources") or ():
            if not source:
                found.append(f"volume {go_quote(name)} (Projected) has no sources provided")
            files += _files_of(source)
        _warn_of_overlapping_paths(files, name, ("Projected", ""), found)


def _files_of(source: Document) -> list[_File]:
    for kind, title in _FILES.items():
        part = source.get(kind)
        if part is not None and part.get("items"):
            origin = (title, part.get("name") or "")
            return [(item.get("path") or "", origin) for item in part["items"]]
    token = source.get("serviceAccountToken")
    if token is None:
        return []
    return [(token.get("path") or "", ("ServiceAccountToken", ""))]


def _warn_of_overlapping_paths(
    files: list[_File], name: str, about: tuple[str, str], found: list[str]
) -> None:
    seen: list[_File] = []
    for path, origin in files:
        file = (path.rstrip("/"), origin)
        for other in seen:
            if file[0] and other[0] and _covers(file[0], other[0]):
                text = f"{_file_text(file)} with {_file_text(other)}"
                start = f"volume {go_quote(name)} ({_origin_text(about)})"
                found.append(f"{start}: overlapping paths: {text}")
        seen.append(file)


def _covers(first: str, second: str) -> bool:
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")


def _file_text(file: _File) -> str:
    path, origin = file
    return f"{go_quote(path)} ({_origin_text(origin)})" if origin[0] else go_quote(path)


def _origin_text(origin: tuple[str, str]) -> str:
    kind, name = origin
    return f"{kind} {go_quote(name)}" if kind in {"ConfigMap", "Secret"} else kind
