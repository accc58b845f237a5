"""Write the data that the embedded API server ships: schemas, discovery, OpenAPI.

Types come from the published Kubernetes modules by reflection (the Go program beside this file);
discovery and OpenAPI come from a running kube-apiserver of the same version, without descriptions.
Started by hand: `make schemas KUBECONFIG=FILE`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "src" / "kubesched" / "cluster" / "apiserver" / "data"
VERSION = "v1.36.4"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def main() -> None:
    """Write all files."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kubeconfig", required=True, type=Path, help="of a running server")
    server = Server(arguments.parse_args().kubeconfig)
    version = server.get("/version")["gitVersion"]
    if version != VERSION:
        raise SystemExit(f"the server has version {version}, the schemas have {VERSION}")
    write("../../../api/schema/data/schema.json.gz", json.loads(generator("types")))
    aggregated = {name: server.get(f"/{name}", accept=AGGREGATED) for name in ("api", "apis")}
    write("discovery.json.gz", aggregated)
    write_openapi(server)


class Server:
    """The kube-apiserver of a kubeconfig with a token and a certificate file."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._address = cluster["server"]
        self._token = config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def request(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> urllib.request.Request:
        """Return a request of the user in the kubeconfig."""
        headers = {"Authorization": f"Bearer {self._token}", **headers}
        return urllib.request.Request(
            self._address + path, data=data, headers=headers, method=method
        )

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        """Return the JSON at a path."""
        request = self.request("GET", path, None, {"Accept": accept})
        with urllib.request.urlopen(request, context=self.tls) as answer:
            return json.load(answer)


def environment() -> dict[str, str]:
    """Return the environment of the Go program."""
    return {**os.environ, "CGO_ENABLED": "0"}


def generator(command: str, stdin: bytes = b"") -> bytes:
    """Return the output of the Go program."""
    ran = subprocess.run(
        ["go", "run", ".", command],
        check=True, capture_output=True, input=stdin, cwd=HERE, env=environment(),
    )  # fmt: skip
    return ran.stdout


def write_openapi(server: Server) -> None:
    """Write OpenAPI v2, as JSON and as protobuf, and v3, one file per group version."""
    second = without_descriptions(server.get("/openapi/v2"))
    write("openapi-v2.json.gz", second)
    write_bytes("openapi-v2.pb.gz", generator("proto", compact(second)))
    for old in (DATA / "openapi-v3").glob("*.json.gz"):
        old.unlink()
    for path in server.get("/openapi/v3")["paths"]:
        document = without_descriptions(server.get(f"/openapi/v3/{path}"))
        write(f"openapi-v3/{path.replace('/', '__')}.json.gz", document)


def without_descriptions(value: Any, *, are_names: bool = False) -> Any:
    """Return a document without its prose; where keys are names, `description` is one of them.

    A response must have a description, and it is a word (`OK`), so those stay.
    """
    if isinstance(value, list):
        return [without_descriptions(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, part in value.items():
        if are_names:
            kept[key] = without_descriptions(part)
        elif key == "responses":
            kept[key] = part
        elif key != "description":
            kept[key] = without_descriptions(part, are_names=key in NAMED)
    return kept


NAMED = {"properties", "definitions", "schemas", "paths", "securityDefinitions"}


def compact(document: Any) -> bytes:
    """Return JSON with sorted keys and no spaces, so that equal data gives equal bytes."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def write(name: str, document: Any) -> None:
    """Write a document compressed."""
    write_bytes(name, compact(document))


def write_bytes(name: str, data: bytes) -> None:
    """Write bytes compressed, without a timestamp."""
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
    print(f"{path.stat().st_size:8d} {name}")


if __name__ == "__main__":
    main()
