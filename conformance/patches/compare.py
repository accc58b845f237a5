"""Sending random writes to a real server, and comparing.

Owns the comparison: with our functions, or with the responses of a second server.
"""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import quote

from conformance.patches.kinds import Document, Kind
from conformance.patches.requests import (
    APPLY,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    Requests,
    Step,
    look,
)
from conformance.patches.servers import Server
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.apply import apply
from kubesched.cluster.apiserver.patch.json_patch import apply_json_patch, apply_merge_patch
from kubesched.cluster.apiserver.patch.managed_fields import (
    Manager,
    keep_times,
    track_create,
    track_update,
)
from kubesched.cluster.apiserver.patch.reset_fields import custom_reset_fields, reset_fields
from kubesched.cluster.apiserver.patch.strategic_merge import apply_strategic_merge


class Fuzzer:
    """Random requests, and the comparison of their results."""

    def __init__(self, seed: int, real: Server, other: Server | None) -> None:
        self._requests = Requests(seed)
        self.real, self.other = real, other
        self.count = 0
        self.differences = 0
        self.outcomes: dict[str, int] = {}
        self.recorded: list[Document] = []

    def run(self, kind: Kind, name: str, steps: int) -> None:
        """Create an object, and write it a number of times."""
        self._send_all("DELETE", f"{kind.path}/{name}", None)
        first = self._requests.creation(kind, name)
        self._do(kind, name, first)
        for _ in range(steps):
            live = self._live(kind, name)
            self._do(kind, name, self._requests.step(kind, name, live))
        self._send_all(
            "PATCH", f"{kind.path}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH
        )
        self._send_all("DELETE", f"{kind.path}/{name}", None)

    def _live(self, kind: Kind, name: str) -> Document:
        code, document = self.real.ask("GET", f"{kind.path}/{name}")
        return document if code == 200 else {}

    def _send_all(
        self, method: str, path: str, body: Any, content_type: str = "application/json"
    ) -> None:
        for server in (self.real, self.other):
            if server is not None:
                server.ask(method, path, body, content_type)

    def _do(self, kind: Kind, name: str, step: Step) -> None:
        self.count += 1
        query = f"?fieldManager={quote(step.manager)}"
        if step.content_type == APPLY and step.force:
            query += "&force=true"
        path = kind.path if step.method == "POST" else f"{kind.path}/{name}"
        path += f"/{step.subresource}" if step.subresource else ""
        live = self._live(kind, name)
        code, answer = self.real.ask(step.method, path + query, step.body, step.content_type)
        label = f"{step.method} {step.content_type.partition('/')[2] or 'json'} {code}"
        self.outcomes[label] = self.outcomes.get(label, 0) + 1
        if self.other is not None and (not code or _is_known(answer)):
            return  # the real server has panicked, or the difference is documented
        if self.other is not None:
            theirs = self.other.ask(step.method, path + query, step.body, step.content_type)
            real = (code, _bare(answer, keeps_managers=True))
            ours = (theirs[0], _bare(theirs[1], keeps_managers=True))
            self._expect(kind, step, live, real, ours)
            return
        creates = step.method == "POST" or (step.content_type == APPLY and not step.subresource)
        if code and (live or creates):
            self._record(kind, step, live, code, answer)
            self._compare_functions(kind, name, step, live, code, answer)

    def _record(self, kind: Kind, step: Step, live: Document, code: int, answer: Document) -> None:
        if kind.is_custom:
            return
        resource = {"group": kind.group, "version": kind.version, "resource": kind.resource}
        outcome = {"kind": kind.kind, "live": live, "code": code, "answer": answer}
        self.recorded.append({**resource, **outcome, **vars(step)})

    def _expect(self, kind: Kind, step: Step, live: Document, real: Any, ours: Any) -> None:
        if real == ours:
            return
        self.differences += 1
        print(f"--- difference {self.differences} at step {self.count}: {kind.kind} {step}")
        print("live:", json.dumps(live))
        for line in _differences(real, ours):
            print("  ", line)

    def _by(self, kind: Kind, step: Step, answer: Document) -> Manager:
        resets = (
            custom_reset_fields(step.subresource, has_status=True)
            if kind.is_custom
            else reset_fields(kind.group, kind.resource, step.subresource)
        )
        entries = answer.get("metadata", {}).get("managedFields") or []
        time = max((one.get("time", "") for one in entries), default="2026-01-01T00:00:00Z")
        operation = "Apply" if step.content_type == APPLY else "Update"
        return Manager(step.manager, operation, kind.api_version, time, step.subresource, resets)

    def _compare_functions(
        self, kind: Kind, name: str, step: Step, live: Document, code: int, answer: Document
    ) -> None:
        by = self._by(kind, step, answer)
        try:
            ours = self._ours(kind, step, live, by)
        except ApiError as error:
            self._expect(kind, step, live, (code, _bare(answer)), (error.code, _bare(error.status)))
            return
        if code >= 400:
            if "undeterminable" in answer.get("message", ""):
                return  # a check of the verb, not of the patch
            if code in {400, 500} or (code == 409 and step.content_type == APPLY and live):
                self._expect(kind, step, live, (code, answer), "applied")
            return
        if step.method == "PATCH":
            self._compare_documents(kind, name, step, live, answer, ours)
        entries = answer["metadata"].get("managedFields") or []
        self._expect(kind, step, live, entries, self._managers(kind, step, live, answer, ours))

    def _managers(
        self, kind: Kind, step: Step, live: Document, answer: Document, ours: Document
    ) -> list[Any]:
        """Return the managedFields that our functions compute for the real server's document."""
        new = copy.deepcopy(answer)
        new["metadata"].pop("managedFields", None)
        sent = look(ours, ("metadata", "managedFields"))
        if sent is not None:
            new["metadata"]["managedFields"] = copy.deepcopy(sent)
        if step.content_type != APPLY:
            by = self._by(kind, step, answer)
            if live:
                track_update(kind.schema, live, new, by)
            else:
                track_create(kind.schema, new, by)
        keep_times(live, new)
        return new["metadata"].get("managedFields") or []

    def _ours(self, kind: Kind, step: Step, live: Document, by: Manager) -> Document:
        if step.content_type == JSON_PATCH:
            return apply_json_patch(live, step.body)
        if step.content_type == MERGE_PATCH:
            return apply_merge_patch(live, step.body)
        if step.content_type == STRATEGIC:
            return apply_strategic_merge(None if kind.is_custom else kind.schema, live, step.body)
        if step.content_type == APPLY:
            return apply(kind.schema, live or None, step.body, by, force=step.force)
        return copy.deepcopy(step.body)

    def _compare_documents(
        self, kind: Kind, name: str, step: Step, live: Document, answer: Document, ours: Document
    ) -> None:
        """Compare documents after the server has normalized ours."""
        ours = copy.deepcopy(ours)
        ours.setdefault("metadata", {})["resourceVersion"] = answer["metadata"]["resourceVersion"]
        if kind.is_custom and isinstance(ours.get("spec"), dict):
            spec = ours["spec"]
            kept = {"free": spec["free"]} if spec.get("free") is not None else {}
            ours["spec"] = {**_without_nulls(spec), **kept}
        path = f"{kind.path}/{name}" + (f"/{step.subresource}" if step.subresource else "")
        code, form = self.real.ask("PUT", f"{path}?dryRun=All&fieldValidation=Ignore", ours)
        self._expect(kind, step, live, _bare(answer), _bare(form) if code == 200 else form)


def _is_known(answer: Document) -> bool:
    """Return whether a difference is documented: we reject nulls in applied custom resources."""
    message = answer.get("message", "")
    return "fuzz.example.com" in message and '"null"' in message


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


def _bare(document: Document, *, keeps_managers: bool = False) -> Document:
    """Return a document without fields that differ between runs."""
    document = copy.deepcopy(document)
    metadata = document.get("metadata") or {}
    for name in ("resourceVersion", "uid", "creationTimestamp", "generation"):
        metadata.pop(name, None)
    managers = metadata.pop("managedFields", None) or []
    if keeps_managers:
        for one in managers:
            one.pop("time", None)
        metadata["managedFields"] = sorted(
            managers, key=lambda one: json.dumps(one, sort_keys=True)
        )
    if "is invalid: patch: " in document.get("message", ""):
        # This rejection prints the whole object, with its times and its UID.
        document.pop("details", None)
        document["message"] = document["message"].rpartition('": ')[2]
    causes = (document.get("details") or {}).get("causes") or []
    # Upstream's order is that of a Go map, and some causes occur more than once.
    causes[:] = [json.loads(one) for one in sorted({json.dumps(cause) for cause in causes})]
    return document


def _differences(one: Any, other: Any, path: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for key in sorted({*one, *other})
            for line in _differences(one.get(key), other.get(key), f"{path}.{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            line
            for index, parts in enumerate(zip(one, other, strict=True))
            for line in _differences(*parts, f"{path}[{index}]")
        ]
    return [] if one == other else [f"{path}: real {json.dumps(one)} ours {json.dumps(other)}"]
