"""Objects from a file or a case, put into a cache as the API server's watches would.

Owns what each object means to the scheduler: bound pod, nominated pod, node, anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubesched.cache.cache import TERMINAL_PHASES, Cache
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod


def load_objects(
    cache: Cache, objects: Iterable[KubeObject], scheduler_names: Collection[str]
) -> list[PodInfo]:
    """Put objects into a cache; return the pods that wait for a node, in order.

    A waiting pod whose scheduler name is not among those given is another scheduler's: what it was
    promised is not known here.
    """
    pending: list[PodInfo] = []
    for obj in objects:
        if isinstance(obj, Node):
            cache.add_node(obj)
        elif not isinstance(obj, Pod):
            cache.put(obj)
        elif (obj.status.phase or "") not in TERMINAL_PHASES:
            pod = cache.pod_info(obj)
            if pod.node_name:
                cache.add_pod(pod)
            else:
                pending.append(pod)
                if pod.nominated_node_name and pod.scheduler_name in scheduler_names:
                    cache.nominate_pod(pod, pod.nominated_node_name)
    return pending
