"""Get and list.

Returns stored entries; rendering is http.rendering's.
Upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go GetList,
staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from kubesched.cluster.apiserver.errors import ApiError, bad_request, expired, not_found
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.storage.store import Bucket
from kubesched.cluster.apiserver.storage.watch_cache import Entry, TooOldError
from kubesched.cluster.apiserver.verbs.context import Context
from kubesched.cluster.apiserver.verbs.list_options import (
    ListOptions,
    decode_token,
    encode_token,
    parse_version,
    read_version,
    too_large_version,
)

_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(slots=True)
class Page:
    """A list, or one page of it."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None


def get(context: Context, resource: Resource, namespace: str, name: str, version: str) -> Entry:
    """Return the stored entry of an object."""
    try:
        requested = parse_version(version)
    except ValueError as error:
        raise ApiError(500, "", str(error)) from None
    if requested > context.store.version:
        raise too_large_version(requested, context.store.version)
    entry = context.entry(resource, namespace, name)
    if entry is None:
        raise not_found(resource.error_group, resource.resource, name)
    return entry


def list_page(context: Context, resource: Resource, namespace: str, options: ListOptions) -> Page:
    """Return the requested page of objects."""
    options.check(is_watch=False)
    if options.version == "0" and not options.version_match and not options.token:
        # Parity: the whole list is returned, regardless of the limit.
        options.limit = 0
    version, start = _from_when_and_where(context, options)
    bucket = context.bucket(resource)
    prefix = _prefix(resource, namespace, options)
    if version and version != context.store.version:
        keys, entries = _as_of(bucket, version, prefix, options)
    else:
        version, entries = context.store.version, bucket.entries
        first, last = bucket.between(prefix)
        keys = bucket.keys[first:last]
    if start:
        keys = keys[bisect_left(keys, prefix + start) :]
    return _page(keys, entries, options, version, prefix)


def _from_when_and_where(context: Context, options: ListOptions) -> tuple[int, str]:
    """Return the exact version to list (0: the latest) and the start key."""
    if options.token:
        if options.version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = decode_token(options.token)
        version = max(version, 0)
    else:
        version, start = read_version(options.version), ""
    if version > context.store.version:
        raise too_large_version(version, context.store.version)
    is_exact = (
        bool(options.token)
        or options.version_match == "Exact"
        or (
            # Parity: a limited list with a version is served at exactly that version.
            options.limit > 0 and version > 0 and not options.version_match
        )
    )
    return (version if is_exact else 0), start


def _prefix(resource: Resource, namespace: str, options: ListOptions) -> str:
    if not resource.is_namespaced:
        return ""
    namespace = namespace or options.fields.demanded("metadata.namespace") or ""
    return f"{namespace}/" if namespace else ""


def _as_of(
    bucket: Bucket, version: int, prefix: str, options: ListOptions
) -> tuple[list[str], dict[str, Entry]]:
    """Return keys and entries at a version."""
    try:
        undone = bucket.history.undone(version)
    except TooOldError:
        raise _too_old(version, options) from None
    entries = {**bucket.entries}
    for key, entry in undone.items():
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
    return sorted(key for key in entries if key.startswith(prefix)), entries


def _too_old(version: int, options: ListOptions) -> ApiError:
    if not options.token:
        return expired(_TOO_OLD)
    del version
    error = expired(_TOKEN_TOO_OLD)
    error.list_metadata = {"continue": encode_token(-1, decode_token(options.token)[1])}
    return error


def _page(
    keys: list[str], entries: dict[str, Entry], options: ListOptions, version: int, prefix: str
) -> Page:
    if options.selects_all:
        limit = options.limit or len(keys)
        page = Page([entries[key] for key in keys[:limit]], version)
        if len(keys) > limit:
            page.token = encode_token(version, f"{keys[limit - 1][len(prefix) :]}\0")
            page.remaining = len(keys) - limit
        return page
    labels, fields = options.labels, options.fields
    found: list[Entry] = []
    for index, key in enumerate(keys):
        entry = entries[key]
        if labels.matches(entry.labels) and fields.matches(entry.fields):
            found.append(entry)
            if len(found) == options.limit and index + 1 < len(keys):
                token = encode_token(version, f"{key[len(prefix) :]}\0")
                return Page(found, version, token)
    return Page(found, version)
