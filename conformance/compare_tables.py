"""Compare the tables of a real API server with those of kubesched for the same objects.

Creates objects of many kinds and in many states on the real server, then lists every served
resource twice, as a Table and as objects. Ages may differ by a second.

    python conformance/compare_tables.py --kubeconfig FILE [--record FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
# As a script this file sees only its own folder; the packages are above.
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "src")]

from conformance.patches.servers import Server, server_of  # noqa: E402
from kubesched.api.times import parse_time  # noqa: E402
from kubesched.cluster.apiserver.resources import Resource  # noqa: E402
from kubesched.cluster.apiserver.strategy import Strategy  # noqa: E402
from kubesched.cluster.apiserver.tables import table_of  # noqa: E402

Document = dict[str, Any]
SKIPPED = {
    ("v1", "componentstatuses"),  # their order is random
    ("v1", "horizontalpodautoscalers"),  # prints the metrics of v2, which v1 has in an annotation
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def main() -> int:
    """Compare; return 1 if a table differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--record", type=Path, help="write objects and real rows to this file")
    options = parser.parse_args()
    real = server_of(options.kubeconfig, None)
    documents = list(yaml.safe_load_all((HERE / "table_objects.yaml").read_text()))
    _define(real, documents)
    served = _served(real)
    _create(real, served, documents)
    recorded: list[Document] = []
    rows = differences = 0
    for resource in served:
        if "list" not in resource.verbs or (resource.version, resource.resource) in SKIPPED:
            continue
        row_count, difference_count = _compare(real, resource, recorded)
        rows += row_count
        differences += difference_count
    if options.record:
        lines = [json.dumps(one, separators=(",", ":")) for one in recorded]
        options.record.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    print(f"{rows} rows, {differences} differences")
    return 1 if differences else 0


def _served(real: Server) -> list[Resource]:
    paths = ["/api/v1"]
    for group in real.ask("GET", "/apis")[1]["groups"]:
        paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    found = []
    for path in paths:
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        listed = real.ask("GET", path)[1]["resources"]
        found += [_resource(real, group, version, raw) for raw in listed if "/" not in raw["name"]]
    return found


def _resource(real: Server, group: str, version: str, raw: Document) -> Resource:
    resource = Resource(
        group=group,
        version=version,
        resource=raw["name"],
        kind=raw["kind"],
        singular="",
        is_namespaced=raw["namespaced"],
        verbs=tuple(raw["verbs"]),
        strategy=Strategy(),
        schema=None,
    )
    code, definition = real.ask("GET", f"{DEFINITIONS}/{raw['name']}.{group}")
    if code == 200:
        columns = definition["spec"]["versions"][0].get("additionalPrinterColumns")
        resource.is_custom, resource.printer_columns = True, tuple(columns or ())
    return resource


def _path(resource: Resource, namespace: str = "") -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = f"/namespaces/{namespace}" if resource.is_namespaced and namespace else ""
    return f"{root}/{resource.version}{place}/{resource.resource}"


def _define(real: Server, documents: list[Document]) -> None:
    """Create custom resource definitions, and wait until they are served."""
    for document in documents:
        if document["kind"] == "CustomResourceDefinition":
            real.ask("POST", f"{DEFINITIONS}?fieldValidation=Strict", document)
            spec = document["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            while real.ask("GET", path)[0] != 200:
                time.sleep(0.05)


def _create(real: Server, served: list[Resource], documents: list[Document]) -> None:
    by_kind = {(one.api_version, one.kind): one for one in served}
    for document in documents:
        resource = by_kind[document["apiVersion"], document["kind"]]
        path = _path(resource, document["metadata"].get("namespace", "default"))
        name = document["metadata"]["name"]
        code, answer = real.ask("POST", f"{path}?fieldValidation=Strict", document)
        if code not in {201, 409}:
            raise SystemExit(f"{document['kind']} {name}: {answer.get('message')}")
        if "status" in document:
            patch = {"status": document["status"]}
            kind = "application/merge-patch+json"
            real.ask("PATCH", f"{path}/{name}/status", patch, kind)
        if (document["metadata"].get("annotations") or {}).get("fuzz/delete"):
            real.ask("DELETE", f"{path}/{name}")


def _compare(real: Server, resource: Resource, recorded: list[Document]) -> tuple[int, int]:
    path = _path(resource)
    documents = real.ask("GET", path)[1].get("items") or []
    for one in documents:
        one.setdefault("kind", resource.kind)
        one.setdefault("apiVersion", resource.api_version)
    theirs = real.ask("GET", f"{path}?includeObject=None", accept=TABLE)[1]
    now_s = parse_time(real.date)
    theirs.pop("metadata")
    tables = [
        table_of(resource, documents, include_object="None", now_s=now_s + shift)
        for shift in (0, 1, -1)
    ]
    for table in tables:
        table.pop("metadata")
    differences = 0
    if any(tables[0][key] != theirs[key] for key in ("kind", "apiVersion", "columnDefinitions")):
        differences += 1
        print(f"--- columns of {path}:", json.dumps(theirs)[:2000], json.dumps(tables[0])[:2000])
    if theirs["rows"] is None or tables[0]["rows"] is None:
        return 0, differences + (theirs["rows"] != tables[0]["rows"])
    for index, row in enumerate(theirs["rows"]):
        ours = [table["rows"][index] for table in tables]
        if row not in ours:
            differences += 1
            print(f"--- {path}\n real {json.dumps(row)}\n ours {json.dumps(ours[0])}")
        elif resource.resource != "flowschemas":
            _record(recorded, resource, documents[index], row, now_s + (0, 1, -1)[ours.index(row)])
    return len(theirs["rows"]), differences


def _record(
    recorded: list[Document], resource: Resource, document: Document, row: Document, now_s: float
) -> None:
    document["metadata"].pop("managedFields", None)
    own = document["metadata"]["name"].startswith("t-") or resource.is_custom
    if not own and sum(one["resource"] == resource.resource for one in recorded) > 2:
        return  # a few of the server's own objects are enough
    recorded.append({
        "group": resource.group, "version": resource.version, "resource": resource.resource,
        "kind": resource.kind, "columns": resource.printer_columns, "custom": resource.is_custom,
        "document": document, "row": row, "now_s": now_s,
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
