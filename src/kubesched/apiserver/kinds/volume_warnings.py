"""What is odd about volumes though nothing is wrong with them.

Owns warnings about kinds of storage that are gone, and about files that hide each other.
Upstream: pkg/api/pod/warnings.go, pkg/api/persistentvolumeclaim/util.go
"""

from __future__ import annotations

from kubesched.apiserver.documents import Document
from kubesched.objects.field_errors import go_quote
from kubesched.objects.quantity import parse_quantity

# Kind: the name in paths, the text.
_GONE = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
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
_File = tuple[str, str]


def volume_warnings(volumes: list[Document], path: str) -> list[str]:
    """Return what is odd about a pod's volumes."""
    found: list[str] = []
    for index, volume in enumerate(volumes):
        _gone(volume, _GONE, f"{path}[{index}]", found)
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            here = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            found.extend(claim_size_warnings(template.get("spec") or {}, here))
        _gone(volume, _GONE_LATER, f"{path}[{index}]", found)
    for volume in volumes:
        _overlaps(volume, found)
    return found


def _gone(
    volume: Document, kinds: dict[str, tuple[str, str]], path: str, found: list[str]
) -> None:
    for kind, (shown, text) in kinds.items():
        if volume.get(kind) is not None:
            found.append(f"{path}.{shown}: {text}")


def claim_size_warnings(spec: Document, path: str) -> list[str]:
    """Return what is odd about the size a claim asks for."""
    found = []
    resources = spec.get("resources") or {}
    for which in ("requests", "limits"):
        text = (resources.get(which) or {}).get("storage")
        if text is not None and parse_quantity(text).milli_value() % 1000:
            shown = f"fractional byte value {go_quote(text)} is invalid, must be an integer"
            found.append(f"{path}.resources.{which}[storage]: {shown}")
    return found


def _overlaps(volume: Document, found: list[str]) -> None:
    start = f"volume {go_quote(volume.get('name') or '')}"
    for kind, shown in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "")):
        source = volume.get(kind)
        if source is None or not source.get("items"):
            continue
        name = source.get("secretName" if kind == "secret" else "name") or ""
        what = f"{shown} {go_quote(name)}" if shown else "DownwardAPI"
        _note_overlaps([(one.get("path") or "", "") for one in source["items"]], start, what, found)
    projected = volume.get("projected")
    if projected is not None:
        files: list[_File] = []
        for source in projected.get("sources") or ():
            if not source:
                found.append(f"{start} (Projected) has no sources provided")
            files.extend(_files_of(source))
        _note_overlaps(files, start, "Projected", found)


def _files_of(source: Document) -> list[_File]:
    for kind, shown in (("configMap", "ConfigMap"), ("secret", "Secret")):
        part = source.get(kind) or {}
        if part.get("items"):
            what = f"{shown} {go_quote(part.get('name') or '')}"
            return [(one.get("path") or "", what) for one in part["items"]]
    if (source.get("downwardAPI") or {}).get("items"):
        return [(one.get("path") or "", "DownwardAPI") for one in source["downwardAPI"]["items"]]
    token = source.get("serviceAccountToken")
    return [(token.get("path") or "", "ServiceAccountToken")] if token is not None else []


def _note_overlaps(files: list[_File], start: str, what: str, found: list[str]) -> None:
    seen: list[_File] = []
    for path, origin in files:
        one = (path.rstrip("/"), origin)
        for other in seen:
            if one[0] and other[0] and _covers(one[0], other[0]):
                text = f"{_shown(one)} with {_shown(other)}"
                found.append(f"{start} ({what}): overlapping paths: {text}")
        seen.append(one)


def _covers(first: str, second: str) -> bool:
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")


def _shown(file: _File) -> str:
    return f"{go_quote(file[0])} ({file[1]})" if file[1] else go_quote(file[0])
