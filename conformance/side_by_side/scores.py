"""Ties, from kube-scheduler's log.

Owns reading the final scores that it logs at level 10. If several nodes have the best score,
upstream picks one at random, and another choice among them is no difference.
Upstream: pkg/scheduler/schedule_one.go prioritizeNodes.
"""

from __future__ import annotations

import re

_FINAL = re.compile(
    r'"Calculated node\'s final score for pod" pod="([^"]+)" node="([^"]+)" score=(-?\d+)'
)


def best_nodes(log: str) -> dict[str, frozenset[str]]:
    """Return the nodes with the best score of each pod's last attempt.

    A pod with only one feasible node is not scored, and is not in the result.
    """
    scores: dict[str, dict[str, int]] = {}
    last_pod = ""
    for pod, node, score in _FINAL.findall(log):
        known = scores.setdefault(pod, {})
        if pod != last_pod or node in known:
            known.clear()
        known[node] = int(score)
        last_pod = pod
    found = {}
    for pod, known in scores.items():
        best = max(known.values())
        found[pod] = frozenset(node for node, score in known.items() if score == best)
    return found
