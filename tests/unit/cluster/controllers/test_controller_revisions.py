from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubesched.cluster.controllers.controller_revisions import (
    data_hash,
    new_revision,
    revision_name,
    same_data,
    sorted_revisions,
    template_patch,
    with_revision,
)
from tests.unit.cluster.controllers.workload_documents import a_stateful_set, a_template


@pytest.mark.parametrize(
    ("collisions", "expected"), [(None, "b75586848"), (0, "545886c6b4"), (1, "545886c6b5")]
)
def test_the_hash_equals_gos(collisions: int | None, expected: str) -> None:
    # Computed with Go's encoding/json and hash/fnv.
    data: dict[str, Any] = {
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c", "image": "a<b&c", "args": ["é", "\u2028"]}],
                    "x": 1,
                },
                "$patch": "replace",
            }
        }
    }
    assert data_hash(data, collisions) == expected


def test_the_patch_replaces_the_template_and_has_sorted_keys() -> None:
    template = {"spec": {"b": 1, "a": [{"d": 1, "c": 2}]}, "metadata": {}}
    patch = template_patch(a_stateful_set(template=template))
    assert msgspec.json.encode(patch) == (
        b'{"spec":{"template":{"$patch":"replace","metadata":{},'
        b'"spec":{"a":[{"c":2,"d":1}],"b":1}}}}'
    )


def test_a_revision_restores_only_the_template() -> None:
    earlier, later = a_stateful_set(), a_stateful_set(5, template=a_template("two"))
    restored = with_revision(later, {"data": template_patch(earlier)})
    assert restored["spec"]["template"] == earlier["spec"]["template"]
    assert restored["spec"]["replicas"] == 5
    assert later["spec"]["template"] == a_template("two")


def test_null_and_absent_fields_are_equal() -> None:
    def revision(metadata: dict[str, Any]) -> dict[str, Any]:
        return {"data": {"spec": {"template": {"metadata": metadata}}}}

    with_null, without = revision({"creationTimestamp": None}), revision({})
    other = revision({"name": "x"})
    assert same_data(with_null, without)
    assert not same_data(with_null, other)


def test_revisions_are_ordered_by_number_then_age_then_name() -> None:
    def revision(name: str, number: int, created: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "creationTimestamp": created}, "revision": number}

    revisions = [
        revision("d", 2, "2026-01-01T00:00:00Z"),
        revision("c", 1, "2026-01-01T00:00:05Z"),
        revision("b", 1, "2026-01-01T00:00:00Z"),
        revision("a", 1, "2026-01-01T00:00:05Z"),
    ]
    assert [revision["metadata"]["name"] for revision in sorted_revisions(revisions)] == [
        "b",
        "a",
        "c",
        "d",
    ]


def test_a_long_name_is_truncated_before_the_hash() -> None:
    assert revision_name("x" * 250, "hash") == "x" * 223 + "-hash"


def test_a_revision_has_the_labels_of_the_template_and_the_annotations_of_its_parent() -> None:
    parent = a_stateful_set()
    parent["metadata"]["annotations"] = {"kubernetes.io/change-cause": "new image"}
    made = new_revision(parent, {"some": "data"}, 7, name="web-1", labels={"hash": "h"})
    assert made["metadata"]["labels"] == {"app": "web", "hash": "h"}
    assert made["metadata"]["annotations"] == {"kubernetes.io/change-cause": "new image"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "web",
            "uid": "set-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert (made["data"], made["revision"]) == ({"some": "data"}, 7)
