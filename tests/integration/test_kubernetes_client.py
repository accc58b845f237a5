"""The official Python client lists, watches and binds.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from kubesched.testing import ApiServer

# Its types are incomplete, and some are wrong.
client: Any = kubernetes.client
config: Any = kubernetes.config
watch: Any = kubernetes.watch

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def core(api_server: ApiServer) -> Iterator[Any]:
    with config.new_client_from_config(str(api_server.kubeconfig)) as connection:
        yield client.CoreV1Api(connection)


def a_pod(name: str) -> Any:
    container = client.V1Container(name="c", image="img")
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1PodSpec(containers=[container]),
    )


def bind(core: Any, pod: str, node: str) -> None:
    body = client.V1Binding(
        metadata=client.V1ObjectMeta(name=pod),
        target=client.V1ObjectReference(api_version="v1", kind="Node", name=node),
    )
    # The client cannot decode the Status after a binding, neither ours nor the real one.
    core.create_namespaced_binding("default", body, _preload_content=False)


def test_lists_watches_and_binds(core: Any) -> None:
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="n1")))
    start = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", a_pod("a"))
    bind(core, "a", "n1")
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_pod, "default", resource_version=start, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].spec.node_name))
        if len(seen) == 2:
            stream.stop()
    assert seen == [("ADDED", None), ("MODIFIED", "n1")]
    pods = core.list_namespaced_pod("default", field_selector="spec.nodeName=n1")
    assert [pod.metadata.name for pod in pods.items] == ["a"]


def test_a_second_binding_conflicts(core: Any) -> None:
    core.create_namespaced_pod("default", a_pod("b"))
    bind(core, "b", "n1")
    with pytest.raises(client.ApiException) as rejected:
        bind(core, "b", "n2")
    assert (rejected.value.status, rejected.value.reason) == (409, "Conflict")


def test_pages_and_patches(core: Any) -> None:
    for name in ("x", "y", "z"):
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"p": "1"}))
        core.create_namespaced_config_map("default", body)
    first = core.list_namespaced_config_map("default", limit=2, label_selector="p=1")
    token = first.metadata._continue
    rest = core.list_namespaced_config_map(
        "default", limit=2, label_selector="p=1", _continue=token
    )
    assert [one.metadata.name for one in [*first.items, *rest.items]] == ["x", "y", "z"]
    patched = core.patch_namespaced_config_map("x", "default", {"data": {"k": "v"}})
    assert patched.data == {"k": "v"}
    core.delete_namespaced_config_map("x", "default")
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_config_map("x", "default")
    assert gone.value.status == 404


def test_other_groups_and_custom_objects(core: Any) -> None:
    apps = client.AppsV1Api(core.api_client)
    labels = {"app": "a"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="img")]),
    )
    spec = client.V1DeploymentSpec(
        selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    created = apps.create_namespaced_deployment("default", body)
    assert (created.spec.replicas, created.metadata.generation) == (1, 1)
    scale = apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3
    custom = client.CustomObjectsApi(core.api_client)
    listed = custom.list_namespaced_custom_object("apps", "v1", "default", "deployments")
    assert [one["metadata"]["name"] for one in listed["items"]] == ["web"]
