from typing import Any

import pytest

from kubesched.api.pod import Pod
from kubesched.api.storage import PersistentVolumeClaim
from kubesched.api.workloads import ReplicaSet
from kubesched.manifests.documents import ManifestError
from tests.unit.simulate.small_clusters import Document, capacity_of, node, pod, scenario, workload


def pods(*documents: Document) -> list[Pod]:
    objects = scenario(*documents).with_missing_pods().objects
    return [obj for obj in objects if isinstance(obj, Pod)]


def names(*documents: Document) -> list[str]:
    return [obj.metadata.name for obj in pods(*documents)]


@pytest.mark.parametrize(
    ("document", "count"),
    [
        pytest.param(workload("ReplicaSet", "w", replicas=3), 3, id="the number of replicas"),
        pytest.param(workload("ReplicaSet", "w"), 1, id="one by default"),
        pytest.param(workload("ReplicaSet", "w", replicas=0), 0, id="none"),
        pytest.param(workload("ReplicationController", "w", replicas=2), 2, id="the old kind"),
        pytest.param(workload("StatefulSet", "w", replicas=2), 2, id="a stateful set"),
        pytest.param(workload("Job", "w"), 1, id="a job creates one"),
        pytest.param(workload("Job", "w", parallelism=4, completions=9), 4, id="the parallelism"),
        pytest.param(
            workload("Job", "w", parallelism=4, completions=2), 2, id="never more than completions"
        ),
        pytest.param(workload("Job", "w", parallelism=4, suspend=True), 0, id="suspended"),
    ],
)
def test_a_workload_creates_its_replicas(document: Document, count: int) -> None:
    assert names(document) == [f"w-{i}" for i in range(count)]


def test_a_deployment_creates_a_replica_set() -> None:
    read = scenario(workload("Deployment", "web", replicas=2)).with_missing_pods()
    (owner,) = (obj for obj in read.objects if isinstance(obj, ReplicaSet))
    created = [obj for obj in read.objects if isinstance(obj, Pod)]
    assert [obj.metadata.name for obj in created] == [
        f"{owner.metadata.name}-{i}" for i in range(2)
    ]
    hashed = created[0].metadata.labels["pod-template-hash"]
    assert owner.metadata.name == f"web-{hashed}"
    assert owner.spec.selector is not None
    assert owner.spec.selector.match_labels == {"app": "web", "pod-template-hash": hashed}
    reference = created[0].metadata.owner_references[0]
    assert (reference.kind, reference.name) == ("ReplicaSet", owner.metadata.name)
    assert reference.controller


def test_existing_pods_are_not_created_again() -> None:
    created = names(
        node("n"),
        workload("StatefulSet", "db", replicas=3),
        pod("db-1", on="n", owner="StatefulSet/db"),
    )
    assert sorted(created) == ["db-0", "db-1", "db-2"]
    ended = pod("j-x", on="n", owner="Job/j", status={"phase": "Succeeded"})
    job = workload("Job", "j", parallelism=5, completions=3)
    assert len(names(node("n"), job, ended)) == 1 + 2


def test_a_pod_with_another_name_does_not_take_an_ordinal() -> None:
    # Parity: stateful_set.go getPodsForStatefulSet, v1.36, which filters by isMemberOf.
    owned = [pod(name, on="n", owner="StatefulSet/db") for name in ("db-00", "old-1")]
    created = names(node("n"), workload("StatefulSet", "db", replicas=2), *owned)
    assert sorted(created) == ["db-0", "db-00", "db-1", "old-1"]


def test_a_deployment_uses_its_existing_replica_set() -> None:
    replica_set = controlled(workload("ReplicaSet", "web-1", replicas=2), "web")
    created = names(workload("Deployment", "web", replicas=2), replica_set)
    assert created == ["web-1-0", "web-1-1"]


def test_a_workload_without_a_template_creates_no_pods() -> None:
    bare = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}},
    }
    assert names(bare) == []


def test_pods_are_created_in_the_order_of_the_file() -> None:
    created = names(pod("first"), workload("Job", "then"), pod("last"))
    assert created == ["first", "then-0", "last"]


def test_pods_of_a_stateful_set_have_ordinals_and_claims() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    read = scenario(
        workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=claims)
    ).with_missing_pods()
    created = [obj for obj in read.objects if isinstance(obj, Pod)]
    assert created[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert created[1].metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    source = created[1].spec.volumes[0].persistent_volume_claim
    assert source is not None
    assert source.claim_name == "data-db-1"
    keys = [obj.key for obj in read.objects if isinstance(obj, PersistentVolumeClaim)]
    assert keys == ["default/data-db-0", "default/data-db-1"]


def test_pods_of_an_indexed_job_have_completion_indexes() -> None:
    created = pods(workload("Job", "j", parallelism=2, completions=2, completionMode="Indexed"))
    key = "batch.kubernetes.io/job-completion-index"
    assert [obj.metadata.labels[key] for obj in created] == ["0", "1"]
    assert created[0].metadata.labels["batch.kubernetes.io/job-name"] == "j"


def test_created_pods_get_defaults() -> None:
    document = workload("Deployment", "web")
    spec = document["spec"]["template"]["spec"]
    spec["priorityClassName"] = "system-cluster-critical"
    spec["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    (created,) = pods(document)
    assert created.spec.priority == 2_000_000_000
    assert created.spec.containers[0].resources.requests == {"cpu": "2"}


def broken(path: str, value: Any) -> Document:
    document = workload("Deployment", "web")
    part: Any = document
    *parents, last = path.split(".")
    for name in parents:
        part = part[name]
    part[last] = value
    return document


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param(
            broken("spec.replicas", -1),
            r"Deployment default/web: spec.replicas: Invalid value: must be greater than or equal",
            id="fewer than none",
        ),
        pytest.param(
            broken("spec.replicas", "many"), r"Deployment web: spec.replicas: ", id="not a number"
        ),
        pytest.param(
            broken("spec.template.spec.nodeSelector", 7),
            r"Deployment default/web: spec.template.spec.nodeSelector",
            id="a fault in the template",
        ),
        pytest.param(
            broken(
                "spec.template.spec.containers",
                [{"name": "c", "resources": {"requests": {"cpu": "x"}}}],
            ),
            r"Deployment default/web: spec.template.spec.containers\[0\]",
            id="a quantity in the template",
        ),
        pytest.param(
            broken("spec.selector", {"matchLabels": {"x": True}}),
            r"Deployment default/web: spec.selector.matchLabels.x: Expected `str`, got `bool`",
            id="a label that YAML takes for a boolean",
        ),
        pytest.param(
            broken("metadata.name", ""), r"Deployment: metadata.name: Required", id="no name"
        ),
        pytest.param(
            broken("spec.template.spec.priorityClassName", "none-such"),
            r"no PriorityClass with name none-such was found",
            id="an unknown class",
        ),
    ],
)
def test_an_invalid_workload_is_reported_in_one_line_with_its_field(
    document: Document, text: str
) -> None:
    with pytest.raises(ManifestError, match=text) as raised:
        scenario(node("n"), document)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("standard input: document 1, items[1]: ")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_too_many_replicas_are_rejected_on_creation(kind: str) -> None:
    read = scenario(node("n"), workload(kind, "web", replicas=10_000_000))
    text = f"{kind} default/web lacks 10000000 pods; the limit is 1000000 per workload"
    with pytest.raises(ManifestError) as raised:
        read.with_missing_pods()
    assert str(raised.value) == text


def test_a_template_may_have_any_number_of_replicas() -> None:
    run = capacity_of([node("n", "2")], workload("Deployment", "web", replicas=10_000_000))
    assert run.count == 2


# -- workloads of a running cluster ---------------------------------------------------------------


def controlled(document: Document, deployment: str, revision: str = "") -> Document:
    """Return a ReplicaSet with a Deployment as its controller."""
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "controller": True}
    ]
    document["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
    labels = {"app": deployment, "pod-template-hash": f"hash{revision}"}
    document["metadata"]["labels"] = labels
    document["spec"]["template"]["metadata"]["labels"] = labels
    return document


def running(*replica_counts: int) -> list[Document]:
    """Return a node, and for each revision a ReplicaSet with that number of pods."""
    documents = [node("n", "40")]
    for revision, count in enumerate(replica_counts, start=1):
        name = f"web-{revision}"
        replica_set = workload("ReplicaSet", name, replicas=count)
        documents.append(controlled(replica_set, "web", str(revision)))
        documents += [pod(f"{name}-{i}", on="n", owner=f"ReplicaSet/{name}") for i in range(count)]
    return documents


def created_from(*documents: Document) -> list[Pod]:
    return [obj for obj in pods(*documents) if not obj.spec.node_name]


def test_a_deployment_with_more_replicas_is_scaled_up() -> None:
    # 2 of the old and 3 of the new revision are there.
    created = created_from(*running(2, 3), workload("Deployment", "web", replicas=7))
    assert [obj.metadata.name for obj in created] == ["web-2-3", "web-2-4"]
    assert created[0].metadata.labels["pod-template-hash"] == "hash2"
    owner = created[0].metadata.owner_references[0]
    assert (owner.kind, owner.name) == ("ReplicaSet", "web-2")


def test_a_replica_set_of_a_deployment_creates_no_pods() -> None:
    documents = running(2, 3)
    documents[4]["spec"]["replicas"] = 9
    assert documents[4]["metadata"]["name"] == "web-2"
    assert len(created_from(*documents)) == 6
    assert created_from(*documents, workload("Deployment", "web", replicas=5)) == []


def test_the_newest_revision_is_the_highest_number() -> None:
    tenth = controlled(workload("ReplicaSet", "web-a", replicas=0), "web", "10")
    ninth = controlled(workload("ReplicaSet", "web-b", replicas=5), "web", "9")
    (created,) = created_from(tenth, ninth, workload("Deployment", "web"))
    assert created.metadata.name == "web-a-0"


def test_a_changed_template_gets_a_new_replica_set() -> None:
    read = scenario(*running(0, 3), workload("Deployment", "web", "2", replicas=5))
    objects = read.with_missing_pods().objects
    created = [obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name]
    assert [obj.spec.containers[0].resources.requests for obj in created] == [{"cpu": "2"}] * 2
    owners = {obj.metadata.owner_references[0].name for obj in created}
    sets = {obj.metadata.name for obj in objects if isinstance(obj, ReplicaSet)}
    assert owners == sets - {"web-1", "web-2"}
    assert created[0].metadata.labels["pod-template-hash"] not in ("hash1", "hash2")
    (note,) = read.notes
    assert note == (
        "Deployment default/web has another template than its ReplicaSet web-2; "
        "the rollout is not simulated, existing pods stay and count"
    )


def test_a_template_of_an_older_replica_set_reuses_it() -> None:
    documents = running(0, 0)
    documents[2]["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    assert documents[2]["metadata"]["name"] == "web-2"
    (created,) = created_from(*documents, workload("Deployment", "web"))
    assert created.metadata.owner_references[0].name == "web-1"


def stored(document: Document) -> Document:
    """Return a ReplicaSet with the defaults of an API server and amounts as it writes them."""
    container = {
        "name": "c",
        "image": "i",
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    document["spec"]["template"]["metadata"]["creationTimestamp"] = None
    document["spec"]["template"]["metadata"]["annotations"] = {"restartedAt": "noon"}
    document["spec"]["template"]["spec"] = {
        "containers": [container],
        "volumes": [{"name": "v", "hostPath": {"path": "/x", "type": ""}}],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    return document


def test_defaults_of_the_api_server_are_not_a_change() -> None:
    by_hand = workload("Deployment", "web")
    by_hand["spec"]["template"]["spec"] = {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"memory": "1024Mi"},
                    "requests": {"cpu": 0.5, "memory": "1024Mi"},
                },
            }
        ],
        "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
    }
    theirs = stored(controlled(workload("ReplicaSet", "web-1"), "web", "1"))
    read = scenario(node("n"), theirs, by_hand)
    assert read.notes == ()
    (created,) = created_from(node("n"), theirs, by_hand)
    assert created.metadata.owner_references[0].name == "web-1"


def test_pods_match_their_owner_by_uid_or_name() -> None:
    replica_set = workload("ReplicaSet", "w", replicas=4)
    replica_set["metadata"]["uid"] = "u"
    by_uid = pod("by-uid", on="n", owner="ReplicaSet/other")
    by_uid["metadata"]["ownerReferences"][0]["uid"] = "u"
    elsewhere = pod("elsewhere", on="n", owner="ReplicaSet/w", metadata={"namespace": "far"})
    by_name = pod("by-name", on="n", owner="ReplicaSet/w")
    assert len(created_from(node("n"), replica_set, by_uid, by_name, elsewhere)) == 2


def cron_job(name: str, **spec: Any) -> Document:
    job = workload("Job", name, **spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}},
    }


def test_a_cron_job_creates_no_pods_and_is_noted() -> None:
    read = scenario(node("n"), cron_job("report")).with_missing_pods()
    assert not [obj for obj in read.objects if isinstance(obj, Pod)]
    assert read.notes == (
        "no pods are created for CronJob default/report: schedules are not simulated",
    )


def test_a_cron_job_is_a_template_for_its_next_job() -> None:
    (template,) = scenario(node("n"), cron_job("report")).capacity_templates(["cj/report"])
    created, _ = template.copy(0)
    assert created.metadata.name == "report-next-0"
    assert created.metadata.labels["job-name"] == "report-next"
    owner = created.metadata.owner_references[0]
    assert (owner.kind, owner.name) == ("Job", "report-next")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": -1}, "spec.jobTemplate.spec.parallelism: Invalid value"),
        ({"parallelism": "x"}, "spec.jobTemplate.spec.parallelism: "),
        (
            {"template": {"spec": {"containers": [{}], "nodeSelector": 7}}},
            "spec.jobTemplate.spec.template.spec.nodeSelector",
        ),
    ],
)
def test_an_invalid_cron_job_is_reported_with_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestError) as raised:
        scenario(node("n"), cron_job("report", **spec))
    assert field in str(raised.value)


def test_a_deployment_read_twice_is_reported() -> None:
    read = scenario(node("n"), workload("Deployment", "w"), workload("Deployment", "w", replicas=2))
    (note,) = read.notes
    assert note.startswith("duplicate Deployment default/w: standard input: ")
    assert len(read.templates) == 1


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "Job", "CronJob"])
def test_a_workload_without_containers_is_reported(kind: str) -> None:
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}}
    if kind.endswith("Job"):
        document["apiVersion"] = "batch/v1"
    read = scenario(node("n"), document)
    text = f"items[1]: the template of this {kind} has no containers; no pods are created"
    assert (read.templates, read.notes) == ((), (f"standard input: document 1, {text}",))
