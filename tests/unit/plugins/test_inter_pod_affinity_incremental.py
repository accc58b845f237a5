"""Raw scores by value, for nodes whose domains have few nodes."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.plugins.inter_pod_affinity.incremental import counted_values


@pytest.mark.parametrize(
    ("raw", "values", "sizes", "groups"),
    [
        pytest.param([5, 3, 5], [3, 5], [1, 2], [1, 0, 1], id="near each other"),
        pytest.param([-2, 0, -2, 1], [-2, 0, 1], [2, 1, 1], [0, 1, 0, 2], id="below zero"),
        pytest.param([0, 10**15, 0], [0, 10**15], [2, 1], [0, 1, 0], id="far apart"),
        pytest.param([7], [7], [1], [0], id="of one node"),
    ],
)
def test_values_are_counted(
    raw: list[int], values: list[int], sizes: list[int], groups: list[int]
) -> None:
    found = counted_values(np.array(raw))
    assert [column.tolist() for column in found] == [values, sizes, groups]
