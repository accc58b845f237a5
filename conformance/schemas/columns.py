"""Write the columns of tables that the embedded API server ships.

Every resource of a running kube-apiserver is asked for its (empty or full) Table.
Never started by a test or by the package itself: `python conformance/schemas/columns.py
--kubeconfig FILE`.
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
sys.path[:0] = [str(HERE.parents[1])]

from conformance.schemas.generate import DATA, Server  # noqa: E402

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEFAULT = "limitranges"
"""A resource that has no columns of its own."""


def main() -> None:
    """Write columns.json.gz."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kubeconfig", required=True, type=Path, help="a running server's")
    server = Server(arguments.parse_args().kubeconfig)
    found: dict[str, Any] = {}
    for path, group in _versions(server):
        for resource in server.get(path)["resources"]:
            name = resource["name"]
            if "/" in name or "list" not in resource["verbs"]:
                continue
            key = f"{group}/{name}"
            if key not in found:
                found[key] = server.get(f"{path}/{name}", accept=TABLE)["columnDefinitions"]
    default = found[f"/{DEFAULT}"]
    own = {key: columns for key, columns in sorted(found.items()) if columns != default}
    data = json.dumps({"": default, **own}, separators=(",", ":")).encode()
    (DATA / "columns.json.gz").write_bytes(gzip.compress(data, mtime=0))


def _versions(server: Server) -> list[tuple[str, str]]:
    groups = server.get("/apis")["groups"]
    found = [("/api/v1", "")]
    for group in groups:
        if "." in group["name"] and not group["name"].endswith("k8s.io"):
            continue  # somebody's custom resources
        version = group["preferredVersion"]["groupVersion"]
        found.append((f"/apis/{version}", group["name"]))
    return found


if __name__ == "__main__":
    main()
