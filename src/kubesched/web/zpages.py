"""/flagz and /statusz.

Owns their text and structured forms. Never knows a flag.
Upstream: staging/src/k8s.io/apiserver/pkg/server/{flagz,statusz}
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.web.answers import Answer, Asked, Handler, object_answer, status_answer, text_answer
from kubesched.web.negotiation import JSON, PLAIN, YAML, Kind, negotiate
from kubesched.web.parts import StatuszInfo

_GROUP = "config.k8s.io"
_VERSIONS = ("v1alpha1", "v1beta1")
_TYPES = (JSON, YAML, PLAIN)
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)
_HIDDEN_FOLDERS = {"/apis", "/api", "/openid", "/openapi", "/.well-known"}


def flagz_handler(component: str, flags: Callable[[], Mapping[str, str]], log: Log) -> Handler:
    """Return the handler of /flagz."""

    def text() -> str:
        lines = "".join(f"{name}: {value}\n" for name, value in sorted(flags().items()))
        return f"\n{component} flagz\n{_WARNING}\n{lines}"

    def fields() -> dict[str, Any]:
        # An empty map is left out, as Go does.
        return {"flags": found} if (found := dict(sorted(flags().items()))) else {}

    return _page("Flagz", component, text, fields, log)


def statusz_handler(
    component: str, info: StatuszInfo, paths: Sequence[str], clock: Clock, log: Log
) -> Handler:
    """Return the handler of /statusz."""
    start = datetime.fromtimestamp(int(info.start_time_s), UTC)
    folders = _folders(paths)

    def up_s() -> int:
        return max(0, int(clock.now_s() - start.timestamp()))

    def text() -> str:
        up = up_s()
        lines = [
            f"Started: {start:%a %b} {start.day:2d} {start:%H:%M:%S} UTC {start.year}",
            f"Up: {up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
            f"Go version: {html.escape(info.go_version)}",
            f"Binary version: {html.escape(info.binary_version)}",
            f"Emulation version: {html.escape(info.emulation_version)}"
            if info.emulation_version
            else "",
            f"Paths: {html.escape(' '.join(folders))}" if folders else "",
            *(f"{title}: {html.escape(said)}" for title, said in info.notes().items()),
        ]
        return f"\n{component} statusz\n{_WARNING}\n\n" + "\n".join(lines) + "\n"

    def fields() -> dict[str, Any]:
        found = {
            "startTime": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": up_s(),
            "goVersion": info.go_version,
            "binaryVersion": info.binary_version,
        }
        if info.emulation_version:
            found["emulationVersion"] = info.emulation_version
        notes = dict(info.notes())
        return {**found, "paths": folders, **({"notes": notes} if notes else {})}

    return _page("Statusz", component, text, fields, log)


def _page(
    kind: str,
    component: str,
    text: Callable[[], str],
    fields: Callable[[], dict[str, Any]],
    log: Log,
) -> Handler:
    """Return the handler of a page that is text, or an object of a kind.

    Parity: flagz.go handleFlagz, statusz.go handleStatusz, v1.36.
    """

    def allows(media_type: str, wanted: Kind | None) -> bool:
        if media_type == PLAIN:
            return wanted is None
        return wanted in [Kind(_GROUP, version, kind) for version in _VERSIONS]

    async def serve(asked: Asked) -> Answer:
        accept = asked.headers.get("Accept", "")
        chosen = negotiate(accept if accept.strip() else PLAIN, _TYPES, allows)
        if chosen is None:
            message = f"only the following media types are accepted: {', '.join(_TYPES)}"
            log.error("Unhandled Error", err=message)
            return status_answer(asked, 406, "NotAcceptable", message, types=_TYPES)
        if chosen.kind is None:
            return text_answer(text())
        version = chosen.kind.version
        document = {
            "kind": kind,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {"name": component},
            **fields(),
        }
        answer = object_answer(
            asked,
            document,
            chosen.media_type,
            is_pretty=chosen.is_pretty,
            content_type=f"{chosen.media_type};g={_GROUP};v={version};as={kind}",
        )
        if version == "v1alpha1":
            page = kind.lower()
            answer.headers["Warning"] = (
                f'299 - "This version of the {page} endpoint is deprecated. '
                'Please use a newer version."'
            )
        return answer

    return serve


def _folders(paths: Sequence[str]) -> list[str]:
    """Return the first parts of the paths.

    Parity: statusz.go aggregatePaths, v1.36.
    """
    parts = [path.split("/") for path in paths]
    folders = {f"/{one[1]}" for one in parts if len(one) >= 2 and one[1]}
    return sorted(folders - _HIDDEN_FOLDERS)
