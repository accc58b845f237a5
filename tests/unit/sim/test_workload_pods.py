from typing import Any

import pytest

from kubesched.app.manifests import ManifestError
from kubesched.objects.pod import Pod
from kubesched.objects.storage import PersistentVolumeClaim
from kubesched.objects.workloads import ReplicaSet
from tests.unit.sim.small_clusters import Document, capacity_of, node, pod, scenario, workload


def pods(*documents: Document) -> list[Pod]:
    objects = scenario(*documents).with_missing_pods().objects
    return [one for one in objects if isinstance(one, Pod)]


def names(*documents: Document) -> list[str]:
    return [one.metadata.name for one in pods(*documents)]


@pytest.mark.parametrize(
    ("document", "count"),
    [
        pytest.param(workload("ReplicaSet", "w", replicas=3), 3, id="so many replicas"),
        pytest.param(workload("ReplicaSet", "w"), 1, id="one if it does not say"),
        pytest.param(workload("ReplicaSet", "w", replicas=0), 0, id="none"),
        pytest.param(workload("ReplicationController", "w", replicas=2), 2, id="the old kind"),
        pytest.param(workload("StatefulSet", "w", replicas=2), 2, id="a stateful set"),
        pytest.param(workload("Job", "w"), 1, id="a job makes one"),
        pytest.param(workload("Job", "w", parallelism=4, completions=9), 4, id="so many at once"),
        pytest.param(workload("Job", "w", parallelism=4, completions=2), 2, id="never too many"),
        pytest.param(workload("Job", "w", parallelism=4, suspend=True), 0, id="suspended"),
    ],
)
def test_a_workload_makes_the_pods_it_wants(document: Document, count: int) -> None:
    assert names(document) == [f"w-{i}" for i in range(count)]


def test_a_deployment_makes_them_through_a_replica_set() -> None:
    read = scenario(workload("Deployment", "web", replicas=2)).with_missing_pods()
    (owner,) = (one for one in read.objects if isinstance(one, ReplicaSet))
    made = [one for one in read.objects if isinstance(one, Pod)]
    assert [one.metadata.name for one in made] == [f"{owner.metadata.name}-{i}" for i in range(2)]
    hashed = made[0].metadata.labels["pod-template-hash"]
    assert owner.metadata.name == f"web-{hashed}"
    assert owner.spec.selector is not None
    assert owner.spec.selector.match_labels == {"app": "web", "pod-template-hash": hashed}
    reference = made[0].metadata.owner_references[0]
    assert (reference.kind, reference.name) == ("ReplicaSet", owner.metadata.name)
    assert reference.controller


def test_pods_that_are_there_are_not_made_again() -> None:
    made = names(
        node("n"),
        workload("StatefulSet", "db", replicas=3),
        pod("db-1", on="n", owner="StatefulSet/db"),
    )
    assert sorted(made) == ["db-0", "db-1", "db-2"]
    ended = pod("j-x", on="n", owner="Job/j", status={"phase": "Succeeded"})
    job = workload("Job", "j", parallelism=5, completions=3)
    assert len(names(node("n"), job, ended)) == 1 + 2


def test_a_deployment_whose_replica_set_is_there_leaves_it_to_that() -> None:
    replica_set = controlled(workload("ReplicaSet", "web-1", replicas=2), "web")
    made = names(workload("Deployment", "web", replicas=2), replica_set)
    assert made == ["web-1-0", "web-1-1"]


def test_a_workload_without_a_template_makes_nothing() -> None:
    bare = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}},
    }
    assert names(bare) == []


def test_pods_come_in_the_order_of_the_file() -> None:
    made = names(pod("first"), workload("Job", "then"), pod("last"))
    assert made == ["first", "then-0", "last"]


def test_the_pods_of_a_stateful_set_know_their_number_and_their_claims() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    read = scenario(
        workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=claims)
    ).with_missing_pods()
    made = [one for one in read.objects if isinstance(one, Pod)]
    assert made[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert made[1].metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    source = made[1].spec.volumes[0].persistent_volume_claim
    assert source is not None
    assert source.claim_name == "data-db-1"
    keys = [one.key for one in read.objects if isinstance(one, PersistentVolumeClaim)]
    assert keys == ["default/data-db-0", "default/data-db-1"]


def test_the_pods_of_an_indexed_job_know_their_number() -> None:
    made = pods(workload("Job", "j", parallelism=2, completions=2, completionMode="Indexed"))
    key = "batch.kubernetes.io/job-completion-index"
    assert [one.metadata.labels[key] for one in made] == ["0", "1"]
    assert made[0].metadata.labels["batch.kubernetes.io/job-name"] == "j"


def test_pods_made_are_filled_in_as_stored_ones() -> None:
    document = workload("Deployment", "web")
    spec = document["spec"]["template"]["spec"]
    spec["priorityClassName"] = "system-cluster-critical"
    spec["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    (made,) = pods(document)
    assert made.spec.priority == 2_000_000_000
    assert made.spec.containers[0].resources.requests == {"cpu": "2"}


def broken(path: str, value: Any) -> Document:
    document = workload("Deployment", "web")
    part: Any = document
    *way, last = path.split(".")
    for name in way:
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
def test_a_fault_is_told_in_one_line_with_its_place(document: Document, text: str) -> None:
    with pytest.raises(ManifestError, match=text) as raised:
        scenario(node("n"), document)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("standard input: document 1, items[1]: ")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_more_pods_than_can_be_made_are_refused_when_they_are_made(kind: str) -> None:
    read = scenario(node("n"), workload(kind, "web", replicas=10_000_000))
    text = f"{kind} default/web lacks 10000000 pods: at most 1000000 are made of one workload here"
    with pytest.raises(ManifestError) as raised:
        read.with_missing_pods()
    assert str(raised.value) == text


def test_a_template_may_want_any_number_of_pods() -> None:
    run = capacity_of([node("n", "2")], workload("Deployment", "web", replicas=10_000_000))
    assert run.count == 2


# -- workloads of a running cluster ---------------------------------------------------------------


def controlled(document: Document, deployment: str, revision: str = "") -> Document:
    """Return a ReplicaSet as a Deployment's."""
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "controller": True}
    ]
    document["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
    labels = {"app": deployment, "pod-template-hash": f"hash{revision}"}
    document["metadata"]["labels"] = labels
    document["spec"]["template"]["metadata"]["labels"] = labels
    return document


def running(*wanted: int) -> list[Document]:
    """Return a Deployment with a ReplicaSet of so many pods for each revision."""
    documents = [node("n", "40")]
    for revision, count in enumerate(wanted, start=1):
        name = f"web-{revision}"
        replica_set = workload("ReplicaSet", name, replicas=count)
        documents.append(controlled(replica_set, "web", str(revision)))
        documents += [pod(f"{name}-{i}", on="n", owner=f"ReplicaSet/{name}") for i in range(count)]
    return documents


def made_of(*documents: Document) -> list[Pod]:
    return [one for one in pods(*documents) if not one.spec.node_name]


def test_a_deployment_with_more_replicas_is_scaled_up() -> None:
    # 2 of the old and 3 of the new revision are there.
    made = made_of(*running(2, 3), workload("Deployment", "web", replicas=7))
    assert [one.metadata.name for one in made] == ["web-2-3", "web-2-4"]
    assert made[0].metadata.labels["pod-template-hash"] == "hash2"
    owner = made[0].metadata.owner_references[0]
    assert (owner.kind, owner.name) == ("ReplicaSet", "web-2")


def test_a_replica_set_leaves_it_to_its_deployment() -> None:
    documents = running(2, 3)
    documents[4]["spec"]["replicas"] = 9
    assert documents[4]["metadata"]["name"] == "web-2"
    assert len(made_of(*documents)) == 6
    assert made_of(*documents, workload("Deployment", "web", replicas=5)) == []


def test_the_newest_revision_is_the_highest_number() -> None:
    tenth = controlled(workload("ReplicaSet", "web-a", replicas=0), "web", "10")
    ninth = controlled(workload("ReplicaSet", "web-b", replicas=5), "web", "9")
    (made,) = made_of(tenth, ninth, workload("Deployment", "web"))
    assert made.metadata.name == "web-a-0"


def test_a_changed_template_gets_a_replica_set_of_its_own() -> None:
    read = scenario(*running(0, 3), workload("Deployment", "web", "2", replicas=5))
    objects = read.with_missing_pods().objects
    made = [one for one in objects if isinstance(one, Pod) and not one.spec.node_name]
    assert [one.spec.containers[0].resources.requests for one in made] == [{"cpu": "2"}] * 2
    owners = {one.metadata.owner_references[0].name for one in made}
    sets = {one.metadata.name for one in objects if isinstance(one, ReplicaSet)}
    assert owners == sets - {"web-1", "web-2"}
    assert made[0].metadata.labels["pod-template-hash"] not in ("hash1", "hash2")
    (note,) = read.notes
    assert note == (
        "the template of Deployment default/web is not that of its ReplicaSet web-2: "
        "no rollout takes place here, pods that are there stay and count"
    )


def test_a_template_that_is_an_older_ones_is_that_ones() -> None:
    documents = running(0, 0)
    documents[2]["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    assert documents[2]["metadata"]["name"] == "web-2"
    (made,) = made_of(*documents, workload("Deployment", "web"))
    assert made.metadata.owner_references[0].name == "web-1"


def stored(document: Document) -> Document:
    """Return a ReplicaSet with what an API server fills in, and with amounts as it writes them."""
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


def test_what_an_api_server_fills_in_is_no_change() -> None:
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
    (made,) = made_of(node("n"), theirs, by_hand)
    assert made.metadata.owner_references[0].name == "web-1"


def test_pods_are_their_owners_by_uid_or_by_name() -> None:
    replica_set = workload("ReplicaSet", "w", replicas=4)
    replica_set["metadata"]["uid"] = "u"
    by_uid = pod("by-uid", on="n", owner="ReplicaSet/other")
    by_uid["metadata"]["ownerReferences"][0]["uid"] = "u"
    elsewhere = pod("elsewhere", on="n", owner="ReplicaSet/w", metadata={"namespace": "far"})
    by_name = pod("by-name", on="n", owner="ReplicaSet/w")
    assert len(made_of(node("n"), replica_set, by_uid, by_name, elsewhere)) == 2


def cron_job(name: str, **spec: Any) -> Document:
    job = workload("Job", name, **spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}},
    }


def test_a_cron_job_makes_nothing_and_says_so() -> None:
    read = scenario(node("n"), cron_job("report")).with_missing_pods()
    assert not [one for one in read.objects if isinstance(one, Pod)]
    assert read.notes == (
        "no pods are made for CronJob default/report: nothing happens at a time here",
    )


def test_a_cron_job_is_a_template_of_its_next_job() -> None:
    (template,) = scenario(node("n"), cron_job("report")).capacity_templates(["cj/report"])
    made, _ = template.copy(0)
    assert made.metadata.name == "report-next-0"
    assert made.metadata.labels["job-name"] == "report-next"
    owner = made.metadata.owner_references[0]
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
def test_a_fault_in_a_cron_job_is_told_with_its_place(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestError) as raised:
        scenario(node("n"), cron_job("report", **spec))
    assert field in str(raised.value)


def test_a_deployment_given_twice_is_told() -> None:
    read = scenario(node("n"), workload("Deployment", "w"), workload("Deployment", "w", replicas=2))
    (note,) = read.notes
    assert note.startswith("Deployment default/w is given twice: in standard input: ")
    assert len(read.templates) == 1


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "Job", "CronJob"])
def test_a_workload_without_containers_is_told(kind: str) -> None:
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}}
    if kind.endswith("Job"):
        document["apiVersion"] = "batch/v1"
    read = scenario(node("n"), document)
    text = f"items[1]: a {kind} without containers in its template: no pod is made of it"
    assert (read.templates, read.notes) == ((), (f"standard input: document 1, {text}",))
