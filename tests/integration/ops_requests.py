"""Requests to an ops server, with recorded responses of kube-scheduler.

Each is (name, client, method, path, headers, body); a client is anonymous, a token or a
certificate.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from kubesched.cluster.launch.http import Response

TOKENS = {"admin": "admin-token", "plain": "plain-token", "stranger": "no-such-token"}
CURL = {"User-Agent": "curl/7.88.1", "Accept": "*/*"}


class Request(NamedTuple):
    """One request."""

    path: str
    client: str = "nobody"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    before: tuple[Request, ...] = ()
    """Requests to send first, so that the response does not depend on other tests."""

    @property
    def name(self) -> str:
        headers = [f"{key}: {value}" for key, value in self.headers]
        parts = [self.client, self.method, self.path, *headers, self.body or ""]
        return " | ".join(part for part in parts if part)


def accepting(media_type: str) -> tuple[tuple[str, str], ...]:
    return (("Accept", media_type),)


def _structured(kind: str, version: str, form: str = "json") -> str:
    return f"application/{form};v={version};g=config.k8s.io;as={kind}"


_RESET_SLIS = Request("/metrics/slis", "admin", method="DELETE")
_HEALTH = [
    "/healthz",
    "/healthz?verbose",
    "/healthz?verbose=1&exclude=leaderElection",
    "/healthz?verbose&exclude=b&exclude=leaderElection&exclude=a%22b",
    "/livez",
    "/livez?verbose",
    "/readyz",
    "/readyz?verbose",
    "/readyz?verbose&exclude=shutdown",
    "/%68ealthz",
]
_GUARDED = [
    "/",
    "/healthz/",
    "/healthz/leaderElection",
    "/healthz/nope",
    "/livez/ping",
    "/readyz/shutdown",
    "/readyz/sched-handler-sync",
    "/metrics/resources",
    "/nope",
    "/api/v1/pods",
    "/debug",
    "/debug/pprof",
    "/debug/flags",
    "/debug/flags/",
    "/debug/flags/x",
    "/debug/flags/v",
    "//healthz",
    "/healthz/../metrics",
    "/%68ealthz%2fx",
    "/nope?a=%3Cb%3E",
]
_ACCEPTS = [
    "application/json",
    "application/*",
    "text/html",
    "text/plain;as=x",
    "garbage",
    "application/json;v=v1;g=config.k8s.io;as=Flagz",
    "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz",
    "application/yaml;q=0.9, application/json;q=0.1",
]

REQUESTS = [
    *(Request(path) for path in _HEALTH),
    *(Request(path, "admin") for path in _GUARDED),
    *(Request(path) for path in (*_GUARDED, "/metrics", "/metrics/slis", "/configz", "/statusz")),
    Request("/healthz", "stranger"),
    Request("/metrics", "stranger"),
    Request("/metrics", "plain"),
    Request("/metrics?x=y", "plain"),
    Request("/metrics", "plain", headers=tuple(CURL.items())),
    Request("/metrics", "stranger", headers=tuple(CURL.items())),
    Request("/metrics", "plain", headers=accepting("application/yaml")),
    Request("/metrics", "plain", headers=accepting("text/html")),
    Request("/metrics?pretty=true", "plain"),
    Request("/metrics", "plain", headers=accepting("application/json;pretty=1")),
    Request("/metrics", method="DELETE"),
    Request("/metrics", method="OPTIONS"),
    Request("/metrics", headers=(("Authorization", "Basic eDp5"),)),
    Request("/livez/ping", headers=(("Authorization", "bearer admin-token"),)),
    Request("/livez/ping", headers=(("Authorization", "Bearer  admin-token"),)),
    Request("/livez/ping", headers=(("Authorization", "Bearer"),)),
    Request("/livez/ping", headers=(("Authorization", "Bearer admin-token x y"),)),
    Request("/livez/ping", "certificate admin"),
    Request("/livez/ping", "certificate user"),
    Request("/livez/ping", "certificate front"),
    Request("/livez/ping", "certificate nameless"),
    Request("/livez/ping", "certificate front", headers=(("X-Remote-User", "joe"),)),
    Request(
        "/livez/ping",
        "certificate front",
        headers=(("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")),
    ),
    Request(
        "/livez/ping",
        "certificate user",
        headers=(("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")),
    ),
    Request(
        "/livez/ping", headers=(("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters"))
    ),
    Request("/livez", "certificate user"),
    Request("/livez/ping", "certificate user", headers=(("Authorization", "Bearer admin-token"),)),
    Request("/livez/ping", "certificate admin", headers=(("Authorization", "Bearer no-such"),)),
    Request("/healthz", method="POST"),
    Request("/healthz", method="HEAD"),
    Request("/nope", "admin", method="HEAD"),
    Request("/debug/pprof", "admin", method="POST"),
    Request("/debug/pprof/nosuch", "admin"),
    Request("/debug/flags/v", "admin", method="PUT", body="3"),
    Request("/debug/flags/v", "admin", method="PUT", body="007"),
    Request("/debug/flags/v", "admin", method="PUT", body="abc"),
    Request("/debug/flags/v", "admin", method="PUT", body=""),
    Request("/debug/flags/v", "admin", method="PUT", body="-1"),
    Request("/debug/flags/v", "admin", method="PUT", body="5\n"),
    Request("/debug/flags/v", "admin", method="PUT", body="4294967296"),
    Request("/debug/flags/v", "admin", method="PUT", body="2147483648"),
    Request("/debug/flags/v", "admin", method="PUT", body="2"),
    Request("/debug/flags/v", "admin", method="POST", body="2"),
    Request("/metrics", "admin", method="DELETE"),
    Request("/metrics/resources", "admin", method="DELETE"),
    _RESET_SLIS,
    Request("/metrics/slis", "admin", before=(_RESET_SLIS,)),
    *(Request("/flagz", "admin", headers=accepting(accept)) for accept in _ACCEPTS),
    *(Request("/statusz", "admin", headers=accepting(accept)) for accept in _ACCEPTS[:3]),
    Request("/flagz", "admin", headers=(*accepting("application/json"), *list(CURL.items())[:1])),
    *(
        Request(f"/{kind.lower()}", "admin", headers=accepting(_structured(kind, version, form)))
        for kind in ("Flagz", "Statusz")
        for version in ("v1beta1", "v1alpha1")
        for form in ("json", "yaml")
    ),
    Request("/statusz", "admin"),
    Request("/statusz", "admin", headers=accepting("text/*")),
    Request("/statusz", "admin", headers=accepting("text/html, */*;q=0.1")),
    Request("/configz", "admin", method="HEAD"),
]

_HEADERS = ("Cache-Control", "Content-Type", "X-Content-Type-Options", "Location", "Warning")
_FIRST_SEPARATOR = re.compile(
    r"^((?:Started|Up|Go version|Binary version|Emulation version|Paths))"
    r"(?:: {1,2}|= | {2})",
    re.MULTILINE,
)


def recorded(request: Request, answer: Response) -> dict[str, Any]:
    """Return the compared parts of a response."""
    headers = {name: value for name in _HEADERS if (value := answer.headers[name]) is not None}
    for name in ("Process-Start-Time-Unix",):
        if name in answer.headers:
            headers[name] = "<number>"
    assert "Server" not in answer.headers
    assert "Date" in answer.headers
    return {"code": answer.code, "headers": headers, "body": _body(request, answer)}


def _body(request: Request, answer: Response) -> str:
    text = answer.body.decode()
    if request.path.startswith(("/flagz", "/statusz")) and answer.code == 200:
        return _zpage(text)
    # Depends on earlier requests for checks and on the start time.
    return re.sub(r"(?m)^process_start_time_seconds .*$", "process_start_time_seconds <n>", text)


def _zpage(text: str) -> str:
    """Return a page without the flags, versions and times of the process."""
    if text.startswith("{"):
        document = json.loads(text)
        return json.dumps({key: _blank(key, value) for key, value in document.items()})
    text = re.sub(r"(?ms)^flags:\n(?:  .*?\n)+", "flags: <map>\n", text)
    text = re.sub(r"(?m)^(startTime|uptimeSeconds|goVersion): .*$", r"\1: <value>", text)
    # The separator is one of four, at random.
    text = _FIRST_SEPARATOR.sub(r"\1: ", text)
    return re.sub(r"(?m)^(Started|Up|Go version): .*$", r"\1: <value>", text)


def _blank(key: str, value: Any) -> Any:
    return "<value>" if key in ("flags", "startTime", "uptimeSeconds", "goVersion") else value
