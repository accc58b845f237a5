"""What is measured of an extender that we serve.

Owns the names, all of them ours: upstream measures only the other end. Never counts by itself.
"""

from __future__ import annotations

from kubesched.kit.exposition import Exposed
from kubesched.kit.measures import Maker, Measures, exponential_buckets


class ExtenderMetrics(Exposed):
    """One attribute for each metric, by its name without the prefix; shown by /metrics."""

    def __init__(self) -> None:
        self.measures = Measures()
        make = Maker(self.measures, "kubesched_extender_")
        self.calls_total = make.counter_vec(
            "calls_total",
            "Number of calls, by verb and result: ok, error (a plugin failed, or too little is "
            "known), undecodable, or refused (another method than POST, no such verb).",
            "ALPHA",
            ("verb", "result"),
        )
        self.call_duration_seconds = make.histogram_vec(
            "call_duration_seconds",
            "How long calls took, from the whole request to the whole answer.",
            "ALPHA",
            ("verb",),
            exponential_buckets(0.0001, 2, 17),
        )
        self.nodes_total = make.counter_vec(
            "nodes_total",
            "Number of nodes that calls were about, by verb and verdict: kept, refused or scored.",
            "ALPHA",
            ("verb", "verdict"),
        )
        self.known_objects = make.gauge_vec(
            "known_objects",
            "Number of objects that the extender knows, by kind: nodes, or pods that have one.",
            "ALPHA",
            ("kind",),
        )
