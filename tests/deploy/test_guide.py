"""The commands of docs/deploy.md on a real control plane, their output and their effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.testing import a_pod
from tests.deploy.documents import kustomized
from tests.deploy.guide import GUIDE, KUBEADM, ROOT, Reader, place_programs, reading
from tests.deploy.node_agent import KUBE_SYSTEM
from tests.deploy.rights import check_rights
from tests.examples.following import sections
from tests.playground.commands import blocks_of

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Yield a reader with a cluster; check that all its processes exited with 0."""
    with reading(tmp_path) as created:
        yield created
        assert {status for _, status in created.agent.ended} <= {0}, created.agent.ended


def holder(reader: Reader, lease: str) -> str:
    found = reader.agent.cluster.api.get(f"{LEASES}/{lease}").must(200).json
    return str(found["spec"].get("holderIdentity") or "_nobody")


def test_a_second_scheduler(reader: Reader) -> None:
    steps = sections(GUIDE)["A second scheduler"]
    removal = next(i for i, step in enumerate(steps) if step.line.startswith("kubectl delete"))
    for step in steps[:removal]:
        reader.do(step)
    agent = reader.agent
    first, second = agent.until_ready("kubesched-", 2)
    assert first.pod["spec"]["nodeName"] != second.pod["spec"]["nodeName"]
    # One of two replicas leads, and the other takes over.
    leader = holder(reader, "kubesched").rpartition("_")[0]
    assert leader in {first.label, second.label}
    agent.cluster.api.delete(f"{KUBE_SYSTEM}/pods/{leader}").must(200)
    agent.until(
        lambda: holder(reader, "kubesched").rpartition("_")[0] not in {"", leader},
        "another replica leads",
    )
    agent.until_ready("kubesched-", 2)
    agent.cluster.create(a_pod("next", scheduler="kubesched"))
    agent.cluster.until_running("next")
    # A changed ConfigMap is reloaded without a restart, and a broken one is ignored.
    path = f"{KUBE_SYSTEM}/configmaps/kubesched"
    before = agent.cluster.api.get(path).must(200).json["data"]["scheduler.yaml"]
    for text, reason in (("nonsense: [", "ReloadRejected"), (before + TWO, "Reloaded")):
        change = {"data": {"scheduler.yaml": text}}
        agent.cluster.api.patch(path, change, MERGE_PATCH).must(200)
        agent.until(lambda reason=reason: reason in lease_events(reader), f"the lease has {reason}")
    agent.cluster.create(a_pod("last", scheduler="another"))
    agent.cluster.until_running("last")
    check_rights(reader, "kubesched-")
    for step in steps[removal:]:
        reader.do(step)
    agent.until(lambda: not agent.of("kubesched-"), "all replicas have ended")
    assert agent.cluster.api.get(f"{LEASES}/kubesched").code == 404


TWO = "  - schedulerName: another\n"


def lease_events(reader: Reader) -> set[str]:
    """Return the reasons of events about the lease."""
    events = reader.agent.cluster.api.get(f"{KUBE_SYSTEM}/events").must(200).json["items"]
    return {
        event["reason"] for event in events if event["involvedObject"].get("name") == "kubesched"
    }


def test_kube_scheduler_is_replaced_and_comes_back(reader: Reader) -> None:
    agent = reader.agent
    reader.follow("In place of kube-scheduler")
    agent.until_ready("kubesched-replacement-", 2)
    control_plane = set(agent.cluster.nodes[:2])
    assert {one.pod["spec"]["nodeName"] for one in agent.of("kubesched-rep")} == control_plane
    assert agent.static_pod is None
    check_rights(reader, "kubesched-replacement-")
    steps = sections(GUIDE)["Rolling back"]
    rest = next(i for i, step in enumerate(steps) if step.line.startswith("kubectl delete -k"))
    for step in steps[:rest]:
        reader.do(step)
    agent.until(
        lambda: not holder(reader, "kube-scheduler").startswith(("kubesched", "_")),
        "kube-scheduler has the lease",
    )
    agent.until(lambda: not agent.of("kubesched-replacement-"), "the replicas have ended")
    for step in steps[rest:]:
        reader.do(step)
    agent.cluster.until_running("web")
    reader.follow("As a static pod")
    kubeadms = yaml.safe_load(KUBEADM.read_text())
    agent.until(lambda: agent.static_pod == kubeadms, "kube-scheduler runs again")


def test_by_helm(reader: Reader) -> None:
    agent = reader.agent
    steps = sections(GUIDE)["Helm"]
    removal = next(i for i, step in enumerate(steps) if step.line == "kubectl delete pod web")
    for step in steps[:removal]:
        reader.do(step)
    agent.until(lambda: len(agent.of("kubesched-")) == 2, "the old replicas are gone")
    agent.until_ready("kubesched-", 2)
    # The plugin decides: only nodes with its label are feasible.
    node = agent.cluster.nodes[3]
    agent.cluster.create(a_pod("picky", scheduler="kubesched"))
    agent.until(
        lambda: any("Node: " in note for note in agent.cluster.notes("picky", "FailedScheduling")),
        "the plugin rejects all nodes",
    )
    label = {"metadata": {"labels": {"cpu": "true"}}}
    agent.cluster.api.patch(f"/api/v1/nodes/{node}", label, MERGE_PATCH).must(200)
    assert agent.cluster.until_bound("picky") == node
    check_rights(reader, "kubesched-")
    for step in steps[removal:]:
        reader.do(step)
    agent.until(lambda: not agent.of("kubesched-"), "all replicas have ended")


def test_an_extender(reader: Reader) -> None:
    agent, cluster = reader.agent, reader.agent.cluster
    steps = sections(GUIDE)["As an extender"]
    for step in steps[:-1]:
        reader.do(step)
    agent.until_ready("kubesched-extender-", 2)
    # The edits that the page describes.
    (config,) = [one for one in blocks_of(GUIDE.read_text(), "yaml") if "extenders: []" in one]
    printed = (reader.directory / "extender.yaml").read_text()
    (stanza,) = [one for one in yaml.safe_load_all(printed) if one and "extenders" in one]
    assert cluster.api.get(f"{KUBE_SYSTEM}/services/kubesched-extender").must(200).json["spec"][
        "clusterIP"
    ] in str(stanza)
    whole = {**yaml.safe_load(config), **stanza}
    (agent.etc / "scheduler-config.yaml").write_text(yaml.safe_dump(whole))
    manifest = yaml.safe_load(KUBEADM.read_text())
    manifest["spec"]["containers"][0]["command"].append(
        "--config=/etc/kubernetes/scheduler-config.yaml"
    )
    (agent.etc / "manifests" / "kube-scheduler.yaml").write_text(yaml.safe_dump(manifest))
    agent.until(
        lambda: any("reachable.yaml" in command for command in agent.commands()),
        "kube-scheduler has the configuration",
    )
    # All but one of the schedulable nodes have a GPU.
    gpu = {"status": {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}}
    cluster.api.patch(f"/api/v1/nodes/{cluster.nodes[2]}/status", gpu, MERGE_PATCH).must(200)
    for number in range(4):
        cluster.create(a_pod(f"plain-{number}"))
    for number in range(4):
        assert cluster.until_bound(f"plain-{number}") == cluster.nodes[3]
    assert any("prioritize" in one.log for one in agent.of("kubesched-extender-"))
    # Removed again, in the order of the page.
    (agent.etc / "manifests" / "kube-scheduler.yaml").write_text(KUBEADM.read_text())
    agent.until(
        lambda: not any("reachable.yaml" in command for command in agent.commands()),
        "kube-scheduler is as it was",
    )
    reader.do(steps[-1])
    agent.until(lambda: not agent.of("kubesched-extender-"), "all replicas have ended")
    cluster.create(a_pod("afterwards"))
    cluster.until_bound("afterwards")


def test_user_overlays(tmp_path: Path) -> None:
    """The two overlays of the page can be built."""
    place_programs(tmp_path)
    cluster, plugin, config = blocks_of(GUIDE.read_text(), "yaml")[:3]
    for folder, text in (("my-cluster", cluster), ("with-plugin", plugin)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kustomization.yaml").write_text(text)
    (tmp_path / "with-plugin" / "scheduler.yaml").write_text(config)
    source = ROOT / "examples" / "cpu-label" / "cpu_label.py"
    (tmp_path / "with-plugin" / "cpu_label.py").write_text(source.read_text())
    (deployed,) = kustomized(tmp_path / "my-cluster")["Deployment"]
    (container,) = deployed["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/team/kubesched:0.1.0"
    built = kustomized(tmp_path / "with-plugin")
    (container,) = built["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--plugin=/etc/kubesched/cpu_label.py:CpuLabel"
    (data,) = (one["data"] for one in built["ConfigMap"] if one["metadata"]["name"] == "kubesched")
    assert data == {"scheduler.yaml": config, "cpu_label.py": source.read_text()}
