"""Processes under the accounts of deploy/ on a real control plane: all rights suffice and are used.

Covers what the guide does not: eviction, volumes, and an extender that binds, behind TLS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.certificates import write_certificates
from kubesched.testing import a_pod
from tests.deploy.guide import KUBEADM, Reader, reading
from tests.deploy.node_agent import KUBE_SYSTEM, Running
from tests.deploy.rights import check_rights
from tests.examples.following import Step

pytestmark = [pytest.mark.programs, pytest.mark.timeout(240)]

DEFAULT = "/api/v1/namespaces/default"
CLAIMS = f"{DEFAULT}/persistentvolumeclaims"
HOST = "kubernetes.io/hostname"
OK = 'result="ok"'
V1 = {"apiVersion": "v1"}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with reading(tmp_path) as created:
        yield created


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str) -> dict[str, Any]:
    spec = {
        "storageClassName": name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {**V1, "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def local_volume(name: str, node: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/tmp/volume"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {**V1, "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def with_claim(name: str) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return a_pod(name, scheduler="kubesched", volumes=[volume])


def test_a_scheduler_evicts_and_binds_volumes(reader: Reader) -> None:
    agent, cluster = reader.agent, reader.agent.cluster
    reader.do(Step("kubectl apply -k deploy/second-scheduler"))
    agent.until_ready("kubesched-", 2)
    node = cluster.nodes[3]
    cpu = int(cluster.api.get(f"/api/v1/nodes/{node}").must(200).json["status"]["capacity"]["cpu"])
    large: dict[str, Any] = {
        "requests": {"cpu": f"{cpu * 600}m"},
        "scheduler": "kubesched",
        "nodeSelector": {HOST: node},
    }
    cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        },
        a_pod("low", **large),
    )
    cluster.until_bound("low")
    cluster.create(a_pod("high", priorityClassName="high", **large))
    assert cluster.until_bound("high") == node
    cluster.until(lambda: not cluster.pod("low"), "low is gone")
    # Volumes: an existing one, and one provisioned for the node.
    cluster.create(
        storage_class("there", "kubernetes.io/no-provisioner"),
        storage_class("made", "kubernetes.io/host-path"),
        local_volume("there", cluster.nodes[2]),
        claim("there"),
        claim("made"),
        with_claim("there"),
        with_claim("made"),
    )
    assert cluster.until_bound("there") == cluster.nodes[2]
    chosen = cluster.until_bound("made")
    stored = cluster.api.get(f"{CLAIMS}/made").must(200).json
    assert stored["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == chosen
    # A pod that fits nowhere gets a condition.
    cluster.create(a_pod("none", scheduler="kubesched", nodeSelector={"no": "where"}))
    cluster.until(lambda: cluster.notes("none", "FailedScheduling"), "it has an event")
    check_rights(reader, "kubesched-")


def bound_by(replica: Running) -> float:
    """Return the number of pods that an extender has bound, from its log."""
    code, text = replica.page("/metrics")
    assert code == 200
    series = re.findall(r"^kubesched_extender_calls_total\{(.*)\} (\S+)$", text, re.MULTILINE)
    return sum(float(count) for line, count in series if 'verb="bind"' in line and OK in line)


def test_an_extender_binds_behind_tls(reader: Reader) -> None:
    agent, cluster = reader.agent, reader.agent.cluster
    files = reader.directory / "tls"
    files.mkdir()
    certificates = write_certificates(files)
    secret = f"--cert={certificates.serving} --key={certificates.serving_key}"
    reader.do(Step(f"kubectl -n kube-system create secret tls extender-tls {secret}"))
    plugin = "examples/plugins/spare_gpu.py"
    reader.do(
        Step(
            "helm install kubesched-extender deploy/helm/kubesched -n kube-system "
            "--set mode=extender,extender.bind=true,extender.tlsSecret=extender-tls "
            rf"--set-file 'pluginFiles.spare_gpu\.py={plugin}' "
            "--set 'plugins={spare_gpu.py:SpareGpu}'"
        )
    )
    agent.until_ready("kubesched-extender-", 2)
    service = cluster.api.get(f"{KUBE_SYSTEM}/services/kubesched-extender").must(200).json
    url = f"https://{service['spec']['clusterIP']}:8888"
    completed = reader.run(
        f"kubesched extender --plugin {plugin}:SpareGpu --bind --print-config --url {url}"
    )
    (stanza,) = [one for one in yaml.safe_load_all(completed.stdout) if one and "extenders" in one]
    (one,) = stanza["extenders"]
    assert one["bindVerb"] == "bind"
    one["enableHTTPS"] = True
    one["tlsConfig"] = {"caFile": str(certificates.authority)}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "leaderElection": {"leaderElect": True},
        **stanza,
    }
    (agent.etc / "scheduler-config.yaml").write_text(yaml.safe_dump(config))
    manifest = yaml.safe_load(KUBEADM.read_text())
    manifest["spec"]["containers"][0]["command"].append(
        "--config=/etc/kubernetes/scheduler-config.yaml"
    )
    (agent.etc / "manifests" / "kube-scheduler.yaml").write_text(yaml.safe_dump(manifest))
    agent.until(
        lambda: any("reachable.yaml" in command for command in agent.commands()),
        "kube-scheduler has the configuration",
    )
    cluster.create(a_pod("web"))
    assert cluster.until_bound("web") in cluster.nodes[2:]
    replicas = agent.of("kubesched-extender-")
    agent.until(lambda: sum(map(bound_by, replicas)) == 1, "an extender bound it")
    for replica in replicas:
        assert "orbidden" not in replica.log
