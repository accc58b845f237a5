"""Copy the roles and bindings of a new cluster from a running real API server.

Owns src/kubesched/cluster/apiserver/data/rbac.json.gz. The cluster must be new and have a running
controller manager, which fills in the aggregated roles.
"""

import argparse
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parents[2] / "src/kubesched/cluster/apiserver/data/rbac.json.gz"
KINDS = "clusterroles,clusterrolebindings,roles,rolebindings"


def main() -> None:
    """Fetch, reduce and write the objects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubectl", required=True)
    parser.add_argument("--kubeconfig", required=True)
    options = parser.parse_args()
    command = [
        options.kubectl,
        "--kubeconfig",
        options.kubeconfig,
        "get",
        KINDS,
        "-A",
        "-o",
        "json",
    ]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    objects = [reduced(one) for one in listed["items"] if is_bootstrapped(one)]
    unfilled = [one["metadata"]["name"] for one in objects if not one.get("rules", True)]
    if unfilled:
        raise SystemExit(f"roles without rules, is the controller manager running? {unfilled}")
    text = json.dumps(objects, sort_keys=True, separators=(",", ":")).encode()
    OUTPUT.write_bytes(gzip.compress(text, mtime=0))
    print(f"{len(objects)} objects, {OUTPUT.stat().st_size} bytes")


def is_bootstrapped(one: dict[str, Any]) -> bool:
    """Return whether the API server created an object at its start."""
    labels = one["metadata"].get("labels", {})
    return bool(labels.get("kubernetes.io/bootstrapping") == "rbac-defaults")


def reduced(one: dict[str, Any]) -> dict[str, Any]:
    """Return an object without values that differ between servers."""
    kept = {"name", "namespace", "labels", "annotations"}
    metadata = {key: value for key, value in one["metadata"].items() if key in kept}
    return {**one, "metadata": metadata}


if __name__ == "__main__":
    main()
