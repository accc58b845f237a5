"""What plugins of outside do wrong, as a metric.

Owns `kubesched_plugin_faults_total`, shown from the first plugin of outside on: without one the
metrics are upstream's. Never judges.
"""

from __future__ import annotations

from kubesched.kit.measures import CounterVec, Maker, Measures


class PluginFaults:
    """Counts faults by plugin, extension point, profile and kind."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._faults: CounterVec | None = None

    def show(self) -> None:
        """Show the metric from now on."""
        if self._faults is None:
            self._faults = Maker(self._measures, "kubesched_").counter_vec(
                "plugin_faults_total",
                "Number of calls of plugins from outside that failed, by the fault: raised, "
                "nonsense, over_budget or interrupted.",
                "ALPHA",
                ("plugin", "extension_point", "profile", "fault"),
            )

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        """Count one fault."""
        self.show()
        assert self._faults is not None
        self._faults.labels(plugin, point, profile, fault).inc()
