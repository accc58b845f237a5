"""The owner of the replica count, after writes of Scale; answers of a v1.36.4 server."""

from typing import Any

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.patch.managed_fields import Manager, track_update
from kubesched.cluster.apiserver.patch.scale_fields import (
    SCALE_VERSION,
    parent_managed_fields,
    scale_managed_fields,
)

PATH = ("spec", "replicas")
SCALE = schema_for("autoscaling", "v1", "Scale")
OWNER: dict[str, Any] = {
    "manager": "m1",
    "operation": "Update",
    "apiVersion": "apps/v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}},
}


def _scaled(managed: list[dict[str, Any]], was: int, now: int) -> list[dict[str, Any]]:
    """Return the object's managedFields after a manager scales it."""
    metadata = {"name": "x", "uid": "u"}
    shown = scale_managed_fields(managed, PATH)
    old = {"metadata": {**metadata, "managedFields": shown}, "spec": {"replicas": was}}
    new: dict[str, Any] = {"metadata": dict(metadata), "spec": {"replicas": now} if now else {}}
    by = Manager("m2", "Update", SCALE_VERSION, "2026-01-01T00:00:09Z", "scale")
    track_update(SCALE, old, new, by)
    sent = new["metadata"].get("managedFields") or []
    return parent_managed_fields(managed, sent, PATH, "apps/v1")


def _entry(manager: str, fields: dict[str, Any], **rest: Any) -> dict[str, Any]:
    kept = {key: value for key, value in OWNER.items() if key != "time"}
    return {**kept, "manager": manager, "fieldsV1": {"f:spec": fields}, **rest}


def test_a_scaling_manager_owns_the_count_without_a_time() -> None:
    assert _scaled([OWNER], 1, 2) == [
        _entry("m2", {"f:replicas": {}}, subresource="scale"),
        _entry("m1", {"f:paused": {}}, time=OWNER["time"]),
    ]


def test_scaling_to_the_current_size_splits_the_owners_entry() -> None:
    parted = _scaled([OWNER], 2, 2)

    assert parted in (
        [_entry("m1", {"f:paused": {}}, time=OWNER["time"]), _entry("m1", {"f:replicas": {}})],
        [_entry("m1", {"f:replicas": {}}), _entry("m1", {"f:paused": {}}, time=OWNER["time"])],
    )


def test_scaling_to_zero_leaves_no_owner() -> None:
    assert _scaled([OWNER], 2, 0) == [_entry("m1", {"f:paused": {}}, time=OWNER["time"])]
