"""Counters, gauges and histograms, and their reset."""

import pytest

from kubesched.metrics.instruments import Maker, Measures, exponential_buckets


def test_a_counter_a_gauge_and_a_histogram() -> None:
    make = Maker(Measures())
    counter = make.counter("c_total", "", "ALPHA")
    gauge = make.gauge("g", "", "ALPHA")
    histogram = make.histogram("h", "", "ALPHA", (1.0, 2.0, 4.0))
    counter.inc()
    counter.inc(2)
    gauge.inc(5)
    gauge.dec()
    for value in (0.5, 1.0, 1.5, 4.0, 100.0):
        histogram.observe(value)
    histogram.observe_many(3.0, 2)
    assert counter.value == 3
    assert gauge.value == 4
    assert histogram.counts == [2, 1, 3, 1]
    assert histogram.sum == 113.0
    assert histogram.count == 7


def test_labels_returns_the_same_child_each_time() -> None:
    family = Maker(Measures()).counter_vec("c_total", "", "ALPHA", ("a", "b"))
    assert family.labels("x", "y") is family.labels("x", "y")
    assert family.labels("x", "y") is not family.labels("y", "x")


def test_a_child_needs_a_value_for_every_label() -> None:
    family = Maker(Measures()).counter_vec("c_total", "", "ALPHA", ("a", "b"))
    with pytest.raises(ValueError, match="c_total"):
        family.labels("x")


def test_a_name_can_be_registered_once() -> None:
    make = Maker(Measures())
    make.counter("c_total", "", "ALPHA")
    with pytest.raises(ValueError, match="c_total"):
        make.gauge("c_total", "", "ALPHA")


# Parity: component-base/metrics/registry.go Reset, v1.36: what has labels, and counters without.
def test_a_reset_removes_children_and_zeroes_counters() -> None:
    measures = Measures()
    make = Maker(measures)
    counter = make.counter("c_total", "", "ALPHA")
    gauge = make.gauge("g", "", "ALPHA")
    histogram = make.histogram("h", "", "ALPHA", (1.0,))
    children = make.gauge_vec("v", "", "ALPHA", ("a",))
    counter.inc()
    gauge.set(7)
    histogram.observe(1)
    children.labels("x").set(3)
    measures.reset()
    assert (counter.value, gauge.value, histogram.count) == (0, 7, 1)
    assert list(children.children()) == []


def test_a_child_held_across_a_reset_is_shown_again_once_used() -> None:
    measures = Measures()
    make = Maker(measures)
    counters = make.counter_vec("c_total", "", "ALPHA", ("a",))
    histograms = make.histogram_vec("h", "", "ALPHA", ("a",), (1.0,))
    bound, unused, observed = (
        counters.labels("x"),
        counters.labels("y"),
        histograms.labels("x"),
    )
    bound.inc(5)
    unused.inc(5)
    observed.observe(2)
    measures.reset()
    bound.inc()
    observed.observe(0.5)
    assert [(at, child.value) for at, child in counters.children()] == [(("x",), 1)]
    assert [(at, child.counts) for at, child in histograms.children()] == [(("x",), [1, 0])]
    assert counters.labels("x") is bound
    assert counters.labels("y") is unused
    assert [at for at, _ in counters.children()] == [("x",), ("y",)]


def test_a_child_can_be_removed() -> None:
    family = Maker(Measures()).gauge_vec("v", "", "ALPHA", ("a",))
    family.labels("x").set(1)
    family.remove("x")
    assert list(family.children()) == []


def test_exponential_buckets_round_as_upstreams() -> None:
    # The last digits are those of repeated multiplication: kube-scheduler shows them.
    assert exponential_buckets(0.00001, 1.5, 6) == (
        1e-05,
        1.5000000000000002e-05,
        2.2500000000000005e-05,
        3.375000000000001e-05,
        5.062500000000001e-05,
        7.593750000000002e-05,
    )


def test_a_preparation_runs_before_metrics_are_shown() -> None:
    measures = Measures()
    gauge = Maker(measures).gauge("g", "", "ALPHA")
    measures.before_look(gauge.inc)
    measures.families()
    measures.families()
    assert gauge.value == 2


def test_registered_metrics_are_counted_by_stability() -> None:
    measures = Measures()
    make = Maker(measures)
    make.counter("a_total", "", "ALPHA")
    make.counter("b_total", "", "STABLE")
    make.counter("c_total", "", "ALPHA")
    make.gauge("process", "", "")
    assert measures.registered_counts == {"ALPHA": 2, "STABLE": 1}
