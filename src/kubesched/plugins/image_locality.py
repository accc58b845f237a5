"""ImageLocality: prefers nodes that already have the pod's images.

Upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, Reads
from kubesched.framework.normalize import truncated_divide
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.node_columns import ImageEntry, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

_READS = Reads(nodes=True)
_MIB = 1024 * 1024
# Most images of public registries are between these sizes; only this range is scored.
_SIZE_BYTES_MIN = 23 * _MIB
_CONTAINER_SIZE_BYTES_MAX = 1000 * _MIB


class ImageLocality:
    """Scores nodes by how much of the pod's images they hold."""

    name = "ImageLocality"

    def reads(self, pod: PodInfo) -> Reads | None:
        """Scores depend on the images of all nodes."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what scores depend on: the images and the number of containers."""
        return (pod.shape.images, pod.shape.container_count)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the scaled sum of the sizes of the images on each node."""
        view = nodes.view
        sums = np.zeros(view.row_count, dtype=np.int64)
        for image in pod.shape.images:
            entry = view.image(normalized_image_name(image))
            if entry is not None:
                rows = np.fromiter(entry.size_bytes_by_row, dtype=np.int64)
                sums[rows] += _scaled_size(entry, view.node_count)
        size_bytes_max = _CONTAINER_SIZE_BYTES_MAX * pod.shape.container_count
        held = sums[nodes.rows]
        # Not np.clip: for a pod without containers, the lower bound exceeds the upper one.
        capped = np.where(held < _SIZE_BYTES_MIN, _SIZE_BYTES_MIN, np.minimum(held, size_bytes_max))
        return truncated_divide(
            NODE_SCORE_MAX * (capped - _SIZE_BYTES_MIN), size_bytes_max - _SIZE_BYTES_MIN
        )


def normalized_image_name(name: str) -> str:
    """Return the name as nodes report it: with a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _scaled_size(entry: ImageEntry, node_count: int) -> int:
    # An image on few nodes has a low weight, so that these nodes do not attract all its pods.
    spread = float(len(entry.size_bytes_by_row)) / float(node_count)
    return int(float(entry.size_bytes) * spread)


PLUGIN = InTreePlugin(plugin=ImageLocality)
