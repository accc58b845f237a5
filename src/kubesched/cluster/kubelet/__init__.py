"""Simulated kubelets: pods start, run, complete and fail without any container.

Owns what the nodes of a cluster do, over REST only: statuses, events, heartbeats, logs. Never runs
a program and never schedules.
"""

from kubesched.cluster.kubelet.kubelets import Kubelets
from kubesched.cluster.kubelet.logs import LogBuffer
from kubesched.cluster.kubelet.settings import KubeletSettings

__all__ = ["KubeletSettings", "Kubelets", "LogBuffer"]
