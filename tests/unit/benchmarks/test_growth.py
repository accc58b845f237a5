"""Workloads of which one number grows and the others stay."""

from __future__ import annotations

from benchmarks.growth import of_templates
from benchmarks.workload import load_workload


def test_a_workload_has_the_requested_number_of_templates() -> None:
    workload = of_templates(load_workload("owned-300"), 3000)
    services, owners, burst = workload.ops
    assert (services.count, owners.count) == (3000, 3000)
    assert burst.variables["t"].modulo == burst.variables["cpu"].modulo == 3000
    assert burst.variables["g"].modulo == 10, "namespaces are as many as before"
