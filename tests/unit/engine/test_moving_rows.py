"""Rows that come and go are where a column made anew would have them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.engine.moving_rows import MovingRows
from kubesched.engine.selection import select_host
from kubesched.framework.totals import ORDER_BITS

ROW_COUNT = 12
STEPS = st.lists(
    st.tuples(st.integers(0, ROW_COUNT - 1), st.integers(0, 3), st.booleans()), max_size=30
)


@pytest.mark.parametrize("width", [np.int32, np.int64])
@given(totals=st.lists(st.integers(0, 3), min_size=ROW_COUNT, max_size=ROW_COUNT), steps=STEPS)
def test_the_best_row_is_the_one_of_a_plain_list(
    width: type[np.signedinteger], totals: list[int], steps: list[tuple[int, int, bool]]
) -> None:
    fitting = dict(enumerate(totals))
    raised = np.array(totals, dtype=width) << ORDER_BITS
    moving = MovingRows(np.arange(ROW_COUNT), ROW_COUNT, raised)
    for position, total, is_looked_at in steps:
        if position not in fitting:
            moving.put_in(position, total << ORDER_BITS)
            fitting[position] = total
        elif fitting[position] == total:
            moving.take_out(position)
            del fitting[position]
        else:
            moving.set_total(position, total << ORDER_BITS)
            fitting[position] = total
        assert len(moving) == len(fitting)
        if is_looked_at and fitting:
            rows = sorted(fitting)
            expected = rows[select_host(np.array([fitting[row] for row in rows]))]
            keys = moving.keys()
            assert (keys >> ORDER_BITS).tolist() == [fitting[row] for row in rows]
            assert moving.position_at(int(keys.argmax())) == expected
