"""The default storage class of a cluster."""

from __future__ import annotations

from kubesched.cluster.controllers.persistent_volume.controller import default_class
from tests.unit.cluster.controllers.volume_documents import Document


def test_the_newest_default_class_wins() -> None:
    def a_class(name: str, created: str, default: str = "true") -> Document:
        annotations = {"storageclass.kubernetes.io/is-default-class": default}
        return {
            "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}
        }

    old, new = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    classes = [a_class("a", old), a_class("c", new), a_class("b", new), a_class("z", new, "no")]
    found = default_class(classes)
    assert found is not None
    assert found["metadata"]["name"] == "b"
    assert default_class([a_class("z", new, "false")]) is None
