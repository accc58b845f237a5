"""Pods and a fixed clock for tests of kubelets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.kubelet.settings import KubeletSettings

Document = dict[str, Any]
NOW_S = 1_800_000_000.0
SETTINGS = KubeletSettings(start_s=1.0, run_s=2.0, stop_s=3.0)


def a_pod(*, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-1",
            "generation": 1,
            "annotations": {
                f"kubesched.dev/{key}": text for key, text in (annotations or {}).items()
            },
        },
        "spec": {
            "nodeName": "n1",
            "restartPolicy": "Always",
            "containers": [{"name": "main", "image": "img"}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def deleted(pod: Mapping[str, Any], grace_s: int) -> Document:
    metadata = {
        **pod["metadata"],
        "deletionTimestamp": "2027-01-15T08:00:00Z",
        "deletionGracePeriodSeconds": grace_s,
    }
    return {**pod, "metadata": metadata}
