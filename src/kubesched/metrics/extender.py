"""Metrics of the extender server. Upstream has none: it measures only the client side."""

from __future__ import annotations

from kubesched.metrics.exposition import Exposed
from kubesched.metrics.instruments import Maker, Measures, exponential_buckets


class ExtenderMetrics(Exposed):
    """One attribute for each metric, by its name without the prefix; shown by /metrics."""

    def __init__(self) -> None:
        self.measures = Measures()
        make = Maker(self.measures, "kubesched_extender_")
        self.calls_total = make.counter_vec(
            "calls_total",
            "Number of calls, by verb and result: ok, error (a plugin failed, or an object is "
            "unknown), undecodable, or rejected (not a POST, or no such verb).",
            "ALPHA",
            ("verb", "result"),
        )
        self.call_duration_seconds = make.histogram_vec(
            "call_duration_seconds",
            "Duration of calls, from the end of the request to the end of the response.",
            "ALPHA",
            ("verb",),
            exponential_buckets(0.0001, 2, 17),
        )
        self.nodes_total = make.counter_vec(
            "nodes_total",
            "Number of nodes in calls, by verb and verdict: kept, rejected or scored.",
            "ALPHA",
            ("verb", "verdict"),
        )
        self.known_objects = make.gauge_vec(
            "known_objects",
            "Number of objects in the extender's cache, by kind: nodes, or pods on a node.",
            "ALPHA",
            ("kind",),
        )
