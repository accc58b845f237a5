"""Record a real kube-apiserver's responses to bodies and custom kinds, for the tests of schemas.

Owns the cases and the files under tests/unit/cluster/apiserver/{schema,crd}. Started by hand:
`python conformance/schemas/record.py --kubeconfig FILE`, with a server that has no custom kinds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.schemas import body_cases, custom_cases
from conformance.schemas.generate import HERE, Server, environment
from kubesched.api.schema.load import kinds, schema_for
from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Type

TESTS = HERE.parents[1] / "tests" / "unit" / "cluster" / "apiserver"
DOCUMENTS = 400
SEED = 20
CHANGING = {
    "uid", "creationTimestamp", "resourceVersion", "time", "lastTransitionTime",
    "deletionTimestamp",
}  # fmt: skip


def main() -> None:
    """Write all files."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kubeconfig", required=True, type=Path, help="of a running server")
    server = Server(arguments.parse_args().kubeconfig)
    write("schema/documents.jsonl.gz", documents())
    write("schema/bodies.jsonl.gz", [body(server, *case) for case in body_cases.cases()])
    write("crd/definitions.jsonl.gz", [definition(server, one) for one in custom_cases.wrong()])
    write("crd/instances.jsonl.gz", list(instances(server)))


def write(name: str, cases: list[Any]) -> None:
    """Write cases, one per line."""
    lines = "".join(json.dumps(case, sort_keys=False) + "\n" for case in cases)
    path = TESTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(lines.encode(), compresslevel=9, mtime=0))
    print(f"{len(cases):5d} cases, {path.stat().st_size:7d} bytes: {name}")


def ask(server: Server, case: dict[str, Any]) -> dict[str, Any]:
    """Return code, answer and warnings."""
    data = None if case.get("body") is None else case["body"].encode()
    headers = {"Content-Type": case.get("content_type", "application/json"), "User-Agent": "cmp"}
    if "accept" in case:
        headers["Accept"] = case["accept"]
    request = server.request(case["method"], case["path"], data, headers)
    try:
        with urllib.request.urlopen(request, context=server.tls) as answer:
            code, text, received = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        code, text, received = error.code, error.read(), error.headers
    warnings = [one.removeprefix('299 - "')[:-1] for one in received.get_all("Warning") or ()]
    return {
        "code": code,
        "answer": comparable(json.loads(text)),
        "warnings": sorted(one.replace('\\"', '"') for one in warnings),
    }


def comparable(value: Any) -> Any:
    """Return a response without values that differ between servers."""
    if isinstance(value, dict):
        return {
            key: "?" if key in CHANGING else comparable(part)
            for key, part in value.items()
            if key != "managedFields"
        }
    return [comparable(part) for part in value] if isinstance(value, list) else value


def body(server: Server, kind: list[str], path: str, text: str, media_type: str) -> dict[str, Any]:
    """Record the rejection of a body; None if the body is valid."""
    case = {"method": "POST", "path": path, "body": text, "content_type": media_type}
    response = ask(server, case)
    rejection = response["answer"].get("message") if response["code"] == 400 else None
    return {"kind": kind, "body": text, "content_type": media_type, "refusal": rejection}


def definition(server: Server, document: dict[str, Any]) -> dict[str, Any]:
    """Record the response to a definition."""
    case = {
        "method": "POST",
        "path": f"{custom_cases.DEFINITIONS}?dryRun=All",
        "body": json.dumps(document),
    }
    return case | ask(server, case)


def instances(server: Server) -> Iterator[dict[str, Any]]:
    """Record a session: one definition, its instances, and their deletion."""
    for case in custom_cases.session():
        yield case | ask(server, case)
        if "customresourcedefinitions" in case["path"] and case["method"] != "GET":
            time.sleep(4)  # Upstream's controllers need some time.


def documents() -> list[dict[str, Any]]:
    """Record random documents through the types themselves, to storage and back."""
    draw = random.Random(SEED)
    cases: list[dict[str, Any]] = []
    names = sorted(kinds())
    while len(cases) < DOCUMENTS:
        group, version, kind = draw.choice(names)
        schema = schema_for(group, version, kind)
        assert schema is not None
        made = value(schema, draw, 0)
        if isinstance(made, dict):
            cases.append({"Group": group, "Version": version, "Kind": kind, "Body": made})
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    ran = subprocess.run(
        ["go", "run", ".", "round"],
        check=True, capture_output=True, input=lines.encode(), cwd=HERE, env=environment(),
    )  # fmt: skip
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    return [
        {"kind": [case["Group"], case["Version"], case["Kind"]], "body": case["Body"]} | answer
        for case, answer in zip(cases, answers, strict=True)
    ]


SCALARS: dict[ScalarKind, list[Any]] = {
    ScalarKind.STRING: ["", "a", "b c", "é<>&"],
    ScalarKind.BOOL: [True, False],
    ScalarKind.INT32: [0, 1, -5, 2**31 - 1],
    ScalarKind.INT64: [0, 1, -5, 2**40],
    ScalarKind.FLOAT: [0, 1, 1.5, 2.0, -3],
    ScalarKind.QUANTITY: [
        "0", "1", "1000m", "1Gi", "1024Mi", "0.5", "1e3", 5, "100n", "1.5Gi", "0.1m", "12e6", 0.5,
    ],
    ScalarKind.INT_OR_STRING: [0, "", 5, "http", "10%"],
    ScalarKind.TIME: [
        "2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00.5Z",
    ],
    ScalarKind.MICRO_TIME: ["2020-01-01T00:00:00.123456Z", "2020-01-01T01:00:00.000000-02:30"],
    ScalarKind.BYTES: ["", "YQ==", "YWJj", "YWI="],
    ScalarKind.ANY: [{}, {"a": 1}, {"a": [1, 2]}],
}  # fmt: skip
WRONG = [1, "x", True, [], {}, 1.5, [None]]


def value(schema: Type, draw: random.Random, depth: int) -> Any:
    """Return a value of a type, now and then null or of another type."""
    if draw.random() < 0.04 and depth:
        return None
    if draw.random() < 0.004:
        return draw.choice(WRONG)
    if isinstance(schema, Scalar):
        return draw.choice(SCALARS[schema.kind])
    if isinstance(schema, ListOf):
        return [value(schema.element, draw, depth + 1) for _ in range(draw.choice([0, 1, 1, 2]))]
    if isinstance(schema, MapOf):
        return {draw.choice("abc"): value(schema.value, draw, depth + 1) for _ in range(2)}
    chance = 0.0 if depth > 9 else min(0.9, (5 if depth < 3 else 2.5) / max(len(schema.fields), 1))
    # JSON keeps kinds inside of objects, protobuf loses them: clients do not send them.
    made = {
        name: value(member.type, draw, depth + 1)
        for name, member in schema.fields.items()
        if name not in {"kind", "apiVersion"} and (depth == 0 or draw.random() < chance)
    }
    if draw.random() < 0.02:
        made["bogus"] = 1
    return made


if __name__ == "__main__":
    main()
