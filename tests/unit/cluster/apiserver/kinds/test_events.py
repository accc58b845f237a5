"""Events through both groups."""

import pytest

from tests.unit.cluster.apiserver.kinds.cluster import Cluster

OLD = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R",
    "message": "M",
    "type": "Normal",
    "source": {"component": "c"},
    "count": 3,
    "firstTimestamp": "2024-01-01T00:00:00Z",
}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.make(OLD, EVENT)
    return made


def test_event_has_two_forms(cluster: Cluster) -> None:
    event = cluster.request("GET", f"{NEW}/e").body

    assert event["apiVersion"] == "events.k8s.io/v1"
    assert event["regarding"] == EVENT["involvedObject"]
    assert event["note"] == "M"
    assert event["deprecatedSource"] == {"component": "c"}
    assert event["deprecatedCount"] == 3
    assert event["deprecatedFirstTimestamp"] == "2024-01-01T00:00:00Z"
    assert event["deprecatedLastTimestamp"] is None
    assert event["eventTime"] is None
    assert "message" not in event


@pytest.mark.parametrize(
    "url", [f"{OLD}?fieldSelector=involvedObject.name=p", f"{NEW}?fieldSelector=regarding.name=p"]
)
def test_both_groups_are_selected_by_the_object_they_regard(cluster: Cluster, url: str) -> None:
    assert [event["metadata"]["name"] for event in cluster.request("GET", url).body["items"]] == [
        "e"
    ]


def test_new_group_changes_no_text(cluster: Cluster) -> None:
    event = cluster.request("GET", f"{NEW}/e").body
    event["note"] = "changed"

    reply = cluster.request("PUT", f"{NEW}/e", event)

    assert reply.body["message"] == (
        'Event "e" is invalid: message: Invalid value: "changed": field is immutable'
    )


def test_old_group_does(cluster: Cluster) -> None:
    event = cluster.request("GET", f"{OLD}/e").body
    event["message"] = "changed"

    assert cluster.request("PUT", f"{OLD}/e", event).body["message"] == "changed"
