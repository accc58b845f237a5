"""`benchmarks/populate.py`, which fills an API server.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import asyncio

from benchmarks.populate import Population, populate
from kubesched.testing import Api, ApiServer


def test_nodes_and_bound_pods_are_created(api_server: ApiServer, api: Api) -> None:
    population = Population(node_count=7, pods_per_node=3)
    asyncio.run(populate(api_server, population, connections=4))
    nodes = api.get("/api/v1/nodes").must(200).json["items"]
    pods = api.get("/api/v1/pods").must(200).json["items"]
    names = {node["metadata"]["name"] for node in nodes}
    assert len(nodes) == len(names) == 7
    assert len(pods) == population.pod_count == 21
    assert {pod["spec"]["nodeName"] for pod in pods} == names
