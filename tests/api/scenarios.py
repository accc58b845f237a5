"""Cases of API behaviour as data: requests in cases/*.yaml, answers in answers/*.json.

Owns how a case is read, run and made comparable. Never knows an answer: they are recorded from
kube-apiserver v1.36.4 (`pytest tests/api --server real --record`) and hold for both servers.

A case is a list of steps, or one step. A step is one of
  do: "POST pods"          a request; the body is `body`, or the object `base` changed by `set`
  create: BASE             POST of an object of bases.yaml, changed by `set` (pointer: value; null
                           removes what is there)
  update: BASE             the object is created, read, changed by `set` and PUT
  status: BASE             as update, on its status subresource
and may have `given` (objects to create first), `save` (name: pointer into the answer), `quiet` (not
compared), `keep` (fields of metadata to compare that usually are not).
`<id>` is a text that is unique to the case, `<ns>` its namespace, other `<names>` are saved ones.
A path that does not begin with / is below the namespace: `pods/a`, `apps/v1:deployments/a`.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kubesched.cluster.launch.http import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    PARTIAL,
    PARTIAL_LIST,
    STRATEGIC_MERGE_PATCH,
    TABLE,
    YAML,
)
from kubesched.testing import Api, Response

HERE = Path(__file__).parent
TYPES = {
    "json": JSON_PATCH,
    "merge": MERGE_PATCH,
    "strategic": STRATEGIC_MERGE_PATCH,
    "apply": APPLY_PATCH,
    "yaml": YAML,
}
ACCEPTS = {"table": TABLE, "partial": PARTIAL, "partial-list": PARTIAL_LIST}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
CLUSTER_IP = re.compile(r"10\.0\.\d+\.\d+")
AGE = re.compile(r"\d+s")
VERSION_IN_TEXT = re.compile(r"""(resourceVersion(?:\\*"|): ?\\*")\d+""")
_NOTHING = "(nothing)"
GENERATED = re.compile(r"\b(gen-)[a-z0-9]{5}\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """One behaviour; its suite is the file it is in."""

    suite: str
    name: str
    steps: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.suite}: {self.name}"


@dataclass
class Run:
    """A case that runs against a server."""

    api: Api
    id: str
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values |= {"id": self.id, "ns": self.id}

    def resolved(self, value: Any) -> Any:
        """Return data with every placeholder replaced."""
        if isinstance(value, str):
            return re.sub(r"<([a-z_]+)>", lambda match: self.values[match[1]], value)
        if isinstance(value, dict):
            return {self.resolved(key): self.resolved(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.resolved(part) for part in value]
        return value

    def step(self, step: dict[str, Any]) -> Response:
        """Do one step."""
        for name in step.get("given", []):
            self.create(name, {}, {}).must(201)
        changes = step.get("set", {})
        if "create" in step:
            return self.create(step["create"], changes, step)
        for subresource, base in (("", step.get("update")), ("/status", step.get("status"))):
            if base:
                return self.change(base, subresource, changes, step)
        method, path = self.resolved(step["do"]).split(" ", 1)
        body = step.get("body")
        if "base" in step:
            _, body = BASES[step["base"]]
        return self.send(method, path, changed(body, changes), step)

    def create(self, base: str, changes: dict[str, Any], step: dict[str, Any]) -> Response:
        path, document = BASES[base]
        return self.send("POST", path, changed(document, changes), step)

    def change(
        self, base: str, subresource: str, changes: dict[str, Any], step: dict[str, Any]
    ) -> Response:
        path, document = BASES[base]
        created = self.send("POST", path, document, {}).must(201).json
        target = f"{path}/{created['metadata']['name']}{subresource}"
        return self.send("PUT", target, changed(created, self.resolved(changes)), step)

    def send(self, method: str, path: str, body: Any, step: dict[str, Any]) -> Response:
        sent = self.resolved(body)
        if isinstance(sent, dict | list):
            sent = json.dumps(sent)
        return self.api.request(
            method,
            full_path(self.resolved(path), self.values["ns"]),
            sent,
            query=self.resolved(step.get("query", {})),
            content_type=TYPES.get(step.get("type", ""), step.get("type", JSON)),
            accept=ACCEPTS.get(step.get("accept", ""), step.get("accept", JSON)),
            headers=step.get("headers"),
        )

    def run(self, case: Case) -> list[dict[str, Any]]:
        """Do every step and return the answers that are compared."""
        answers = []
        for step in case.steps:
            answer = self.step(step)
            for name, pointer in step.get("save", {}).items():
                self.values[name] = str(at(answer.json, pointer))
            if step.get("quiet"):
                answer.must()
                continue
            answers.append(self.comparable(answer, step))
        return answers

    def comparable(self, answer: Response, step: dict[str, Any]) -> dict[str, Any]:
        """Return a response without values that differ between runs."""
        try:
            body = normal(answer.json, step.get("keep", ()))
        except ValueError:
            body = normal_text(answer.text, "")
        document = {"code": answer.code, "body": body}
        if answer.warnings:
            document["warnings"] = answer.warnings
        text = json.dumps(document)
        for name, value in sorted(self.values.items(), key=lambda one: -len(one[1])):
            if name != "ns" and len(value) > 3:
                text = text.replace(value, f"<{name}>")
        # Last, since saved values may look like these.
        text = UUID.sub("UID", text)
        result: dict[str, Any] = json.loads(text)
        return result


def full_path(path: str, namespace: str) -> str:
    """Return the path of a request from its short form."""
    if path.startswith("/"):
        return path
    group, colon, rest = path.partition(":")
    if not colon:
        return f"/api/v1/namespaces/{namespace}/{path}"
    return f"/apis/{group}/namespaces/{namespace}/{rest}"


def at(document: Any, pointer: str) -> Any:
    """Return the value at a pointer."""
    for key in pointer.strip("/").split("/"):
        document = document[int(key) if isinstance(document, list) else unescaped(key)]
    return document


def changed(document: Any, changes: dict[str, Any]) -> Any:
    """Return a copy with values set by pointer; null removes, `-` at the end appends."""
    document = copy.deepcopy(document)
    for pointer, value in changes.items():
        *parents, last = [unescaped(key) for key in pointer.strip("/").split("/")]
        target = document
        for key in parents:
            target = target[int(key)] if isinstance(target, list) else target.setdefault(key, {})
        if isinstance(target, list):
            if last == "-":
                target.append(value)
            elif value is None:
                del target[int(last)]
            else:
                target[int(last)] = value
        elif value is None:
            target.pop(last, None)
        else:
            target[last] = value
    return document


def unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")


def normal(value: Any, keep: Any, key: str = "") -> Any:
    """Return data with times, versions and addresses blanked, and managedFields gone."""
    if isinstance(value, dict):
        dropped = () if "managedFields" in keep else ("managedFields",)
        if key == "columnDefinitions":
            dropped = (*dropped, "description")  # prose, which we do not ship
        return {
            name: normal(part, keep, name) for name, part in value.items() if name not in dropped
        }
    if isinstance(value, list):
        parts = [normal(part, keep, key) for part in value]
        # Upstream iterates a map here, so that the order is random.
        by_chance = key == "causes" and all(
            part.get("reason") == "FieldManagerConflict" for part in parts
        )
        return sorted(parts, key=lambda part: str(part["field"])) if by_chance else parts
    if key == "resourceVersion" and value not in ("", "0"):
        return "RV"
    if key in ("nodePort", "remainingItemCount") and isinstance(value, int) and value:
        return key.upper() if key == "nodePort" else value
    if isinstance(value, str):
        return normal_text(value, key)
    return value


def normal_text(text: str, key: str) -> str:
    if key == "continue" and text:
        return "TOKEN"
    if key == "cells" and AGE.fullmatch(text):
        return "AGE"
    if text.startswith("2001-"):  # a time that a case chose
        return text
    text = re.sub(r"in record \(\d+\)", "in record (RV)", text)
    text = VERSION_IN_TEXT.sub(r"\1RV", GENERATED.sub(r"\1SUFFIX", text))
    text = UUID.sub("UID", MICRO_TIME.sub("MICROTIME", text))
    return CLUSTER_IP.sub("CLUSTER-IP", TIME.sub("TIME", text))


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Return where an answer differs from the real server's, a line each."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            line
            for key in sorted(expected.keys() | actual.keys())
            for line in differences(
                expected.get(key, _NOTHING), actual.get(key, _NOTHING), f"{path}/{key}"
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        if path.endswith("/managedFields"):
            # In order of time, and only within a second by name: two writes may share one or not.
            expected, actual = sorted(expected, key=_writer), sorted(actual, key=_writer)
        return [
            line
            for index, (one, other) in enumerate(zip(expected, actual, strict=True))
            for line in differences(one, other, f"{path}/{index}")
        ]
    # Python takes True for 1.
    same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return [] if same else [f"{path}: {expected!r} became {actual!r}"]


def _writer(entry: dict[str, Any]) -> tuple[str, ...]:
    return entry["operation"], entry["manager"], entry.get("subresource", "")


def load_bases() -> dict[str, tuple[str, Any]]:
    """Return path and object of every base."""
    loaded = yaml.load((HERE / "bases.yaml").read_text(), Loader=yaml.CSafeLoader)
    return {name: (base["path"], base["object"]) for name, base in loaded.items()}


@cache
def load_cases() -> list[Case]:
    """Return every case in order of files."""
    cases = []
    for path in sorted((HERE / "cases").glob("*.yaml")):
        names = set()
        for entry in yaml.load(path.read_text(), Loader=yaml.CSafeLoader):
            name = entry["name"]
            assert name not in names, f"{path.name}: {name} is there twice"
            names.add(name)
            steps = entry.get("steps") or [entry]
            cases.append(Case(path.stem, name, tuple(steps)))
    return cases


def load_answers(suite: str) -> dict[str, Any]:
    """Return the recorded answers of a suite by case."""
    path = HERE / "answers" / f"{suite}.json"
    loaded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return loaded


def save_answers(suite: str, answers: dict[str, Any]) -> None:
    """Write the answers of a suite, one case a line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(answers[name], sort_keys=True)}"
        for name in sorted(answers)
    ]
    path = HERE / "answers" / f"{suite}.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


BASES = load_bases()
