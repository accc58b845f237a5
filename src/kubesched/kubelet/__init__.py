"""Kubelets that pretend: pods run, complete, fail and end without any container.

Owns what a cluster's nodes do, over REST alone: statuses, events, heartbeats, logs. Never runs
anything, and never schedules.
"""

from kubesched.kubelet.kubelets import Kubelets
from kubesched.kubelet.logs import LogBuffer
from kubesched.kubelet.settings import KubeletSettings

__all__ = ["KubeletSettings", "Kubelets", "LogBuffer"]
