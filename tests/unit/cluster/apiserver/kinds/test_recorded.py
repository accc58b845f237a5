"""Random writes of core kinds, with what a real kube-apiserver answered.

recorded.jsonl.gz is written by conformance/fuzz_objects.py --record from a v1.36.4 server.
"""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.apiserver.http.request_info import request_info
from tests.unit.cluster.apiserver.kinds.cluster import Cluster, Reply


def _cases() -> list[Any]:
    lines = gzip.decompress((Path(__file__).parent / "recorded.jsonl.gz").read_bytes())
    cases = [json.loads(line) for line in lines.splitlines()]
    return [
        pytest.param(case, id=f"{number}-{case['method']}-{case['path'].split('/')[-1]}")
        for number, case in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize("case", _cases())
def test_answer_is_the_real_servers(case: dict[str, Any], cluster: Cluster) -> None:
    if case["before"] is not None:
        _keep(cluster, case["path"].removesuffix("/status"), case["before"], case["body"])

    reply = cluster.request(case["method"], f"{case['path']}?dryRun=All", case["body"])

    assert _comparable(reply) == case["answer"]


def _keep(cluster: Cluster, path: str, document: dict[str, Any], changed: dict[str, Any]) -> None:
    """Store an object as the real server had it, with a version of this server."""
    info = request_info("GET", path, {})
    resource = cluster.context.registry.find(info.group, info.version, info.resource)
    assert resource is not None
    version = cluster.context.store.next_version()
    is_unchanged = changed.get("metadata", {}).get("resourceVersion") == document["metadata"].get(
        "resourceVersion"
    )
    entry = cluster.context.new_entry(resource, copy.deepcopy(document), version)
    cluster.context.store.put(resource.storage, entry)
    if is_unchanged:
        changed["metadata"]["resourceVersion"] = str(version)


def _comparable(reply: Reply) -> Any:
    """Return the compared part of a response, as conformance/fuzz_objects.py does."""
    body = reply.body
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        causes = {
            f"{cause.get('field')}: {cause.get('reason')}: {cause.get('message')}": 1
            for cause in details.pop("causes", [])
        }
        message = body.get("message") if not causes else ""
        return [reply.code, body.get("reason"), message, details, causes]
    for name in ("uid", "creationTimestamp", "managedFields", "resourceVersion"):
        body["metadata"].pop(name, None)
    status = body.get("status") or {}
    status.pop("lastPhaseTransitionTime", None)
    for condition in status.get("conditions") or ():
        if "lastTransitionTime" in condition:
            condition["lastTransitionTime"] = "now"
    if body.get("kind") == "Service":
        _hide_allocated(body.get("spec") or {})
    return [reply.code, body, reply.warnings]


def _hide_allocated(spec: dict[str, Any]) -> None:
    for name in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
        if spec.get(name) not in (None, "None", ["None"]):
            spec[name] = "allocated"
    for port in spec.get("ports") or ():
        if "nodePort" in port:
            port["nodePort"] = "allocated"
