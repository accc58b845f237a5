"""Write the columns of tables that the embedded API server ships.

Fetches the (possibly empty) Table of every resource of a running kube-apiserver. Started by hand:
`python conformance/schemas/columns.py --kubeconfig FILE`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# As a script this file sees only its own folder; the packages are above.
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "src")]

from conformance.patches.servers import Server, server_of  # noqa: E402
from conformance.schemas.generate import DATA  # noqa: E402

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEFAULT = "limitranges"
"""A resource with the default columns."""


def main() -> None:
    """Write columns.json.gz."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kubeconfig", required=True, help="of a running server")
    server = server_of(arguments.parse_args().kubeconfig, None)
    columns: dict[str, Any] = {}
    for path, group in _versions(server):
        for resource in server.ask("GET", path)[1]["resources"]:
            name = resource["name"]
            if "/" in name or "list" not in resource["verbs"]:
                continue
            key = f"{group}/{name}"
            if key not in columns:
                columns[key] = _columns(server, f"{path}/{name}")
    columns["autoscaling/scales"] = _scale_columns(server)
    default = columns[f"/{DEFAULT}"]
    own = {key: value for key, value in sorted(columns.items()) if value != default}
    data = json.dumps({"": default, **own}, separators=(",", ":")).encode()
    (DATA / "columns.json.gz").write_bytes(gzip.compress(data, mtime=0))


def _columns(server: Server, path: str) -> Any:
    columns = server.ask("GET", path, accept=TABLE)[1]["columnDefinitions"]
    return [{**column, "description": ""} for column in columns]  # Without the prose.


def _scale_columns(server: Server) -> Any:
    """Return the columns of a Scale, which only an object has."""
    path = "/api/v1/namespaces/default/replicationcontrollers"
    name = "columns-of-a-scale"
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"a": "b"}, "template": pod}
    server.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
    try:
        return _columns(server, f"{path}/{name}/scale")
    finally:
        server.ask("DELETE", f"{path}/{name}")


def _versions(server: Server) -> list[tuple[str, str]]:
    groups = server.ask("GET", "/apis")[1]["groups"]
    versions = [("/api/v1", "")]
    for group in groups:
        if "." in group["name"] and not group["name"].endswith("k8s.io"):
            continue  # custom resources
        version = group["preferredVersion"]["groupVersion"]
        versions.append((f"/apis/{version}", group["name"]))
    return versions


if __name__ == "__main__":
    main()
