import pytest

from kubesched.kit.memory import budget


@pytest.mark.parametrize(
    ("row_count", "bytes_max"),
    [
        pytest.param(0, 1000, id="an empty cluster"),
        pytest.param(10_000, 1000, id="a cluster of 10,000 nodes"),
        pytest.param(25_000, 2500, id="a larger cluster in proportion"),
    ],
)
def test_a_budget_grows_with_the_cluster(row_count: int, bytes_max: int) -> None:
    assert budget(1000, row_count) == bytes_max


def test_a_budget_of_zero_stays_zero() -> None:
    assert budget(0, 1_000_000) == 0
