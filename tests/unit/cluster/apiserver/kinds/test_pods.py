"""Pods: defaults on creation, updates and subresources."""

from typing import Any

import pytest

from tests.unit.cluster.apiserver.kinds.cluster import Cluster, a_pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.make(PODS, a_pod())
    return made


def change(cluster: Cluster, view: str = "", **spec: Any) -> Any:
    pod = cluster.request("GET", f"{PODS}/p").body
    pod["spec"] |= spec
    return cluster.request("PUT", f"{PODS}/p{view}", pod)


def test_keys_of_labels_are_merged_into_selectors(cluster: Cluster) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app", "absent"],
    }
    term = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["app"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    spec = cluster.make(
        PODS, a_pod("m", topologySpreadConstraints=[constraint], affinity=affinity)
    )["spec"]

    (kept,) = spec["topologySpreadConstraints"]
    assert kept["labelSelector"] == {
        "matchExpressions": [{"key": "app", "operator": "In", "values": ["m"]}]
    }
    (kept,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert kept["labelSelector"] == {
        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["m"]}]
    }


def test_a_gated_pod_has_a_condition(cluster: Cluster) -> None:
    status = cluster.make(PODS, a_pod("g", schedulingGates=[{"name": "gate"}]))["status"]

    assert status["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }
    ]


def test_only_changes_of_the_spec_move_the_generation(cluster: Cluster) -> None:
    pod = cluster.request("GET", f"{PODS}/p").body
    pod["metadata"]["labels"]["x"] = "y"
    assert cluster.request("PUT", f"{PODS}/p", pod).body["metadata"]["generation"] == 1

    containers = [{**pod["spec"]["containers"][0], "image": "x:2"}]

    assert change(cluster, containers=containers).body["metadata"]["generation"] == 2


def test_rejection_of_an_update_shows_the_difference(cluster: Cluster) -> None:
    reply = change(cluster, hostNetwork=True, restartPolicy="Never")

    assert reply.code == 422
    assert reply.body["message"] == (
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than '
        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
        "previously negative)\n"
        "@@ -37,7 +37,7 @@\n"
        "   }\n"
        "  ],\n"
        '  "EphemeralContainers": null,\n'
        '- "RestartPolicy": "Always",\n'
        '+ "RestartPolicy": "Never",\n'
        '  "TerminationGracePeriodSeconds": 30,\n'
        '  "ActiveDeadlineSeconds": null,\n'
        '  "DNSPolicy": "ClusterFirst",\n'
        "@@ -46,7 +46,7 @@\n"
        '  "AutomountServiceAccountToken": null,\n'
        '  "NodeName": "",\n'
        '  "SecurityContext": {\n'
        '-  "HostNetwork": false,\n'
        '+  "HostNetwork": true,\n'
        '   "HostPID": false,\n'
        '   "HostIPC": false,\n'
        '   "ShareProcessNamespace": null,\n'
    )


def test_status_update_keeps_class_and_takes_addresses(cluster: Cluster) -> None:
    pod = cluster.request("GET", f"{PODS}/p").body
    pod["status"] = {"phase": "Running", "podIP": "10.1.1.1"}
    pod["spec"]["nodeName"] = "ignored"

    changed = cluster.request("PUT", f"{PODS}/p/status", pod).body

    assert changed["status"] == {
        "phase": "Running",
        "qosClass": "Burstable",
        "podIP": "10.1.1.1",
        "podIPs": [{"ip": "10.1.1.1"}],
    }
    assert "nodeName" not in changed["spec"]


def test_ephemeral_containers_stay(cluster: Cluster) -> None:
    added = change(
        cluster, "/ephemeralcontainers", ephemeralContainers=[{"name": "e", "image": "x"}]
    )
    removed = change(cluster, "/ephemeralcontainers", ephemeralContainers=[])

    assert added.body["metadata"]["generation"] == 2
    assert removed.body["message"] == (
        'Pod "p" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers '
        '"e" may not be removed\n'
    )


def test_resize_changes_resources_but_not_the_class(cluster: Cluster) -> None:
    container = cluster.request("GET", f"{PODS}/p").body["spec"]["containers"][0]
    more = {**container, "image": "ignored", "resources": {"requests": {"cpu": "200m"}}}
    exact = {"cpu": "1", "memory": "1Gi"}
    all_of_it = {**container, "resources": {"requests": exact, "limits": exact}}

    resized = change(cluster, "/resize", containers=[more]).body
    rejected = change(cluster, "/resize", containers=[all_of_it]).body

    assert resized["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "200m"}}
    assert resized["spec"]["containers"][0]["image"] == "x:1"
    assert rejected["message"] == (
        'Pod "p" is invalid: spec: Invalid value: "Burstable": Pod QOS Class may not change as a '
        "result of resizing"
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("example.com/nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("not a reference", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(cluster: Cluster, image: str, policy: str) -> None:
    pod = a_pod("i", containers=[{"name": "a", "image": image}])

    spec = cluster.make(f"{PODS}?dryRun=All", pod)["spec"]

    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_doubtful_names_cause_a_warning(cluster: Cluster) -> None:
    reply = cluster.request("POST", PODS, a_pod("a.b"))

    assert reply.warnings == [
        (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            "behavior; a DNS label is recommended: [must not contain dots]"
        )
    ]
