"""Metrics in Prometheus' text format and in OpenMetrics."""

import math

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from kubesched.metrics.exposition import go_number, openmetrics_of, registry_of, text_of
from kubesched.metrics.instruments import Maker, Measures


def some_measures() -> Measures:
    measures = Measures()
    make = Maker(measures, "x_")
    counters = make.counter_vec("requests_total", 'Requests\n\\ "all".', "STABLE", ("verb", "code"))
    counters.labels("GET", "404").inc()
    counters.labels("GET", "200").inc(1_500_000)
    counters.labels('P"\\\n', "200").inc()
    make.gauge("free", "Free.", "").set(0.5)
    make.histogram("size", "Sizes.", "ALPHA", (1.0, 2.5)).observe(2)
    make.histogram_vec("wait", "Waits.", "BETA", ("who",), (0.001,)).labels("a").observe(5)
    make.counter_vec("unused_total", "Unused.", "ALPHA", ("who",))
    return measures


# Names sorted, labels sorted by name, children by value; families without children left out.
TEXT = r"""# HELP x_free Free.
# TYPE x_free gauge
x_free 0.5
# HELP x_requests_total [STABLE] Requests\n\\ "all".
# TYPE x_requests_total counter
x_requests_total{code="200",verb="GET"} 1.5e+06
x_requests_total{code="200",verb="P\"\\\n"} 1
x_requests_total{code="404",verb="GET"} 1
# HELP x_size [ALPHA] Sizes.
# TYPE x_size histogram
x_size_bucket{le="1"} 0
x_size_bucket{le="2.5"} 1
x_size_bucket{le="+Inf"} 1
x_size_sum 2
x_size_count 1
# HELP x_wait [BETA] Waits.
# TYPE x_wait histogram
x_wait_bucket{who="a",le="0.001"} 0
x_wait_bucket{who="a",le="+Inf"} 1
x_wait_sum{who="a"} 5
x_wait_count{who="a"} 1
"""


def test_the_text_format_equals_gos() -> None:
    assert text_of(some_measures().families()) == TEXT


def test_prometheus_client_parses_the_text() -> None:
    families = {family.name: family for family in text_string_to_metric_families(TEXT)}
    assert families["x_requests"].samples[1].labels == {"code": "200", "verb": 'P"\\\n'}
    assert families["x_size"].type == "histogram"


def test_openmetrics_has_the_same_samples() -> None:
    text = openmetrics_of(some_measures())
    assert text.endswith("# EOF\n")
    assert 'x_size_bucket{le="1.0"} 0.0' in text
    parsed = openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # The library has no types.
    read = {family.name: family for family in parsed}
    assert [sample.value for sample in read["x_requests"].samples] == [1_500_000, 1, 1]
    assert set(read) == {"x_free", "x_requests", "x_size", "x_wait"}


def test_openmetrics_appends_total_to_the_name_of_a_counter() -> None:
    measures = Measures()
    Maker(measures).counter("attempts", "", "ALPHA").inc()
    assert "# TYPE attempts counter\nattempts 1\n" in text_of(measures.families())
    assert "attempts_total 1.0" in openmetrics_of(measures)


def test_openmetrics_has_no_created_samples() -> None:
    measures = some_measures()
    assert "_created" not in text_of(measures.families()) + openmetrics_of(measures)


def test_a_registry_of_prometheus_client_has_the_metrics() -> None:
    registry = registry_of(some_measures())
    assert registry.get_sample_value("x_requests_total", {"verb": "GET", "code": "404"}) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-3, "-3"),
        (0.1, "0.1"),
        (1e-05, "1e-05"),
        (0.0001, "0.0001"),
        (999_999, "999999"),
        (999_999.5, "999999.5"),
        (1_000_000, "1e+06"),
        (-1_250_000, "-1.25e+06"),
        (1794802516.05, "1.79480251605e+09"),
        (2**64, "1.8446744073709552e+19"),
        (1e100, "1e+100"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert go_number(value) == text
