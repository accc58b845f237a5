"""The new ReplicaSet of a Deployment and its annotations."""

from __future__ import annotations

import copy

import pytest

from kubesched.cluster.controllers.deployment.revisions import (
    is_same_template,
    last_revision,
    max_revision,
    new_replica_set,
    new_replica_set_annotations,
    new_replica_set_document,
    old_replica_sets,
    revision_of,
    rollback_revision,
    rolled_back,
    without_rollback_annotation,
)
from tests.unit.cluster.controllers.deployment_world import a_deployment, a_replica_set, a_template

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_templates_are_compared_without_their_hash() -> None:
    hashed = a_template(**{"pod-template-hash": "5d4f8"})
    assert is_same_template(a_template(), hashed)
    assert is_same_template(hashed, a_template(**{"pod-template-hash": "other"}))
    assert not is_same_template(a_template(), a_template("web:2"))
    assert not is_same_template(a_template(), a_template(tier="front"))


def test_empty_metadata_makes_no_difference() -> None:
    empty = a_template()
    empty["metadata"] |= {"creationTimestamp": None, "annotations": {}}
    assert is_same_template(a_template(), empty)
    restarted = a_template()
    restarted["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    assert not is_same_template(a_template(), restarted)


def test_the_oldest_of_several_new_ones_is_the_new_one() -> None:
    sets = [
        a_replica_set("other", 1, age=3, template=a_template("web:0")),
        a_replica_set("young", 1, age=1),
        a_replica_set("elder", 1, age=2),
    ]
    new = new_replica_set(a_deployment(1), sets)
    assert new is not None
    assert new["metadata"]["name"] == "elder"
    assert [
        replica_set["metadata"]["name"] for replica_set in old_replica_sets(a_deployment(1), sets)
    ] == [
        "other",
        "young",
    ]
    assert new_replica_set(a_deployment(1, template=a_template("web:2")), sets) is None


@pytest.mark.parametrize(
    ("revisions", "highest", "last"),
    [
        ([], 0, 0),
        (["3"], 3, 0),
        (["1", "3", "2"], 3, 2),
        (["3", "3"], 3, 3),
        (["2", "x", ""], 2, 0),
    ],
)
def test_the_highest_revision_and_the_one_before(
    revisions: list[str], highest: int, last: int
) -> None:
    sets = [
        a_replica_set(f"s{number}", 0, annotations={REVISION: text} if text else {})
        for number, text in enumerate(revisions)
    ]
    assert max_revision(sets) == highest
    assert last_revision(sets) == last


def test_the_first_replica_set_of_a_template_is_found_by_its_hash() -> None:
    deployment = a_deployment(3, minReadySeconds=7)
    before = copy.deepcopy(deployment)
    made = new_replica_set_document(deployment)
    hash_text = made["metadata"]["labels"]["pod-template-hash"]
    assert deployment == before
    assert made["metadata"]["name"] == f"web-{hash_text}"
    assert made["metadata"]["labels"] == {"app": "web", "pod-template-hash": hash_text}
    assert made["spec"]["selector"]["matchLabels"] == made["metadata"]["labels"]
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"]
    assert made["spec"]["template"]["spec"] == deployment["spec"]["template"]["spec"]
    assert made["spec"]["minReadySeconds"] == 7
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": "the-deployment",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_collision_leads_to_another_name() -> None:
    first = new_replica_set_document(a_deployment(3))
    assert first == new_replica_set_document(a_deployment(3))
    second = new_replica_set_document(a_deployment(3, status={"collisionCount": 1}))
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_a_long_name_is_cut_to_have_room_for_the_hash() -> None:
    deployment = a_deployment(3)
    deployment["metadata"]["name"] = "n" * 253
    made = new_replica_set_document(deployment)
    hash_text = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == "n" * (252 - len(hash_text)) + f"-{hash_text}"


def test_a_new_replica_set_takes_over_annotations_but_those_of_revisions() -> None:
    deployment = a_deployment(
        10,
        surge="25%",
        annotations={"team": "a", APPLIED: "{}", REVISION: "7", HISTORY: "1", DESIRED: "1"},
    )
    reported = new_replica_set_annotations(deployment, a_replica_set("new", 0), 3, exists=False)
    assert reported == {"team": "a", REVISION: "3", DESIRED: "10", MAX: "13"}


def test_an_existing_one_keeps_its_size_annotations() -> None:
    own = {REVISION: "3", DESIRED: "5", MAX: "6", "its": "own"}
    deployment = a_deployment(10, annotations={"team": "b"})
    reported = new_replica_set_annotations(
        deployment, a_replica_set("new", 0, annotations=own), 3, exists=True
    )
    assert reported == {**own, "team": "b"}


@pytest.mark.parametrize(
    ("before", "revision", "expected"),
    [
        pytest.param({REVISION: "1"}, 4, {REVISION: "4", HISTORY: "1"}, id="a roll-back"),
        pytest.param(
            {REVISION: "4", HISTORY: "1,2"}, 6, {REVISION: "6", HISTORY: "1,2,4"}, id="and again"
        ),
        pytest.param({REVISION: "9"}, 4, {REVISION: "9"}, id="never a lower one"),
        pytest.param({REVISION: "x"}, 4, {REVISION: "x"}, id="a value that is not a number stays"),
        pytest.param({}, 4, {REVISION: "4"}, id="the first"),
    ],
)
def test_earlier_revisions_are_kept_in_the_history(
    before: dict[str, str], revision: int, expected: dict[str, str]
) -> None:
    replica_set = a_replica_set("new", 0, annotations=before)
    assert (
        new_replica_set_annotations(a_deployment(1), replica_set, revision, exists=True) == expected
    )


def test_a_long_history_is_truncated_at_the_start() -> None:
    history = ",".join(str(number) for number in range(100, 600))
    before = {REVISION: "600", HISTORY: history}
    reported = new_replica_set_annotations(
        a_deployment(1), a_replica_set("new", 0, annotations=before), 601, exists=True
    )
    assert len(history) == 1999
    assert reported[HISTORY] == ",".join(str(number) for number in range(101, 601))


@pytest.mark.parametrize(("text", "revision"), [("0", 0), ("5", 5), ("", None), ("five", None)])
def test_the_deprecated_annotation_requests_a_revision(text: str, revision: int | None) -> None:
    deployment = a_deployment(1, annotations={"deprecated.deployment.rollback.to": text})
    assert rollback_revision(deployment) == revision
    assert rollback_revision(a_deployment(1)) is None


def test_a_rollback_copies_template_and_annotations() -> None:
    deployment = a_deployment(
        1,
        template=a_template("web:2"),
        annotations={
            "cause": "edit",
            "new": "yes",
            REVISION: "2",
            "deprecated.deployment.rollback.to": "1",
        },
    )
    old = a_replica_set(
        "old",
        0,
        template=a_template("web:1", **{"pod-template-hash": "x"}),
        annotations={"cause": "create", REVISION: "1", DESIRED: "1"},
    )
    back = without_rollback_annotation(rolled_back(deployment, old))
    assert back["spec"]["template"] == a_template("web:1")
    assert back["metadata"]["annotations"] == {"cause": "create", REVISION: "2"}
    assert revision_of(old) == 1
    assert old["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == "x"
