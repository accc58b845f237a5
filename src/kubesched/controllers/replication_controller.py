"""ReplicationControllers: the elder form of ReplicaSets.

Owns what is different: the kind, and that its selector is plain labels. All else is replica_set's.
Upstream: pkg/controller/replication/replication_controller.go, conversion.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.client.cached.documents import Selector, selector_of_labels
from kubesched.client.resources import REPLICATION_CONTROLLERS
from kubesched.controllers.replica_set import ReplicaSetController


class ReplicationControllerController(ReplicaSetController):
    """Keeps the pods of ReplicationControllers."""

    name = "replicationmanager"
    component = "replication-controller"
    resource = REPLICATION_CONTROLLERS
    tells_terminating = False

    def selector(self, document: Mapping[str, Any]) -> Selector:
        """Return which pods a set wants."""
        return selector_of_labels(document["spec"].get("selector"))
