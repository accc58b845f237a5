"""What grows while the rest stays."""

from __future__ import annotations

from benchmarks.growth import of_templates
from benchmarks.workload import load_workload


def test_a_workload_of_templates_has_as_many_as_wanted() -> None:
    workload = of_templates(load_workload("owned-300"), 3000)
    services, owners, burst = workload.ops
    assert (services.count, owners.count) == (3000, 3000)
    assert burst.variables["t"].modulo == burst.variables["cpu"].modulo == 3000
    assert burst.variables["g"].modulo == 10, "namespaces are as many as before"
