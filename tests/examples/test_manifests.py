"""The manifests of the examples: mounted files and granted rights."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.schedulers import scheduler_command
from kubesched.cluster.launch.server import kubeconfig_text
from kubesched.cluster.playground.in_process import Playground, playground
from kubesched.testing import TokenUser, a_pod
from tests.examples.folders import EXAMPLES, FORMS, Document, Example, Form

MOUNTED = "/etc/kubesched"


def manifests(example: Example) -> dict[str, list[Document]]:
    """Return the objects of an example by their kinds."""
    found: dict[str, list[Document]] = {}
    for path in sorted((example.folder / "manifests").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            found.setdefault(document["kind"], []).append(document)
    return found


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_mounted_files_equal_the_example(example: Example) -> None:
    found = manifests(example)
    (config_map,) = found["ConfigMap"]
    (deployment,) = found["Deployment"]
    assert "scheduler.yaml" in config_map["data"]
    for name, text in config_map["data"].items():
        assert text == (example.folder / name).read_text(), name
    pod = deployment["spec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["volumeMounts"][0]["mountPath"] == MOUNTED
    plugins = [f"--plugin={MOUNTED}/{plugin}" for plugin in example.plugins]
    assert container["args"][:-1] == [f"--config={MOUNTED}/scheduler.yaml", *plugins]


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
@pytest.mark.timeout(120)
def test_the_deployed_scheduler_has_the_rights_it_needs(
    example: Example, form: Form, tmp_path: Path
) -> None:
    """Its command runs here, with the mounted files, as the service account of the manifest."""
    found = manifests(example)
    with (
        playground(nodes=2, scheduler=False, server=form.server) as cluster,
        ProcessGroup(tmp_path) as group,
    ):
        for documents in found.values():
            cluster.create(*documents)
        for node in cluster.nodes:
            label = {"metadata": {"labels": {"cpu": "true"}}}
            cluster.api.patch(f"/api/v1/nodes/{node}", label, MERGE_PATCH).must(200)
        kubeconfig = as_service_account(cluster, found["ServiceAccount"][0], tmp_path)
        group.start("scheduler", mounted_command(found, kubeconfig, tmp_path))
        (config,) = yaml.safe_load_all(found["ConfigMap"][0]["data"]["scheduler.yaml"])
        names = [profile["schedulerName"] for profile in config["profiles"]]
        for name in names:
            cluster.create(a_pod(name, scheduler=name, labels={"zone": "zone-a"}))
        for name in names:
            cluster.until_bound(name)
            cluster.until(partial(cluster.notes, name, "Scheduled"), "it is reported")
            (note,) = cluster.notes(name, "Scheduled")
            assert note == f"Successfully assigned default/{name} to {cluster.node_of(name)}"
        log = (tmp_path / "scheduler.log").read_text()
        assert "forbidden" not in log.lower(), log
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        held = {one["metadata"]["name"] for one in cluster.api.get(leases).must(200).json["items"]}
        lease = config["leaderElection"].get("resourceName")
        assert held & {"kube-scheduler", *names} == ({lease} if lease else set())


def as_service_account(cluster: Playground, account: Document, directory: Path) -> Path:
    """Return a kubeconfig of a service account."""
    metadata = account["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{metadata['name']}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.api.post(path, request).must(201).json["status"]["token"]
    user = TokenUser(metadata["name"], token, ())
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(cluster.server.url, cluster.server.ca_file, user))
    return kubeconfig


def mounted_command(
    found: dict[str, list[Document]], kubeconfig: Path, directory: Path
) -> list[str]:
    """Return the container's command, with its mounts in a local directory."""
    mount = directory / "mounted"
    mount.mkdir()
    data: dict[str, Any] = found["ConfigMap"][0]["data"]
    for name, text in data.items():
        (mount / name).write_text(text)
    # In a pod the service account is found automatically.
    config = yaml.safe_load(data["scheduler.yaml"])
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    (mount / "scheduler.yaml").write_text(json.dumps(config))
    (container,) = found["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kubesched", "run"]
    arguments = [argument.replace(MOUNTED, str(mount)) for argument in container["args"]]
    return [*scheduler_command("kubesched"), *arguments, "--secure-port=0"]
