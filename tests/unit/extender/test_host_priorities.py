"""Host priorities from cached fragments: the same bytes as the encoder's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubesched.extender.server.prioritize_shortcuts import HostPriorities
from kubesched.extender.wire import HostPriority, encode

INT64 = st.integers(-(1 << 62), (1 << 62))
SCORES = st.one_of(st.integers(0, 10), st.integers(-1, 12), INT64)
# A cluster: names by row. A call: rows and their scores.
CLUSTERS = st.lists(st.text(max_size=5), min_size=1, max_size=200)


def written(writer: HostPriorities, names: list[str], call: dict[int, int], state: int) -> bytes:
    rows = np.array(list(call), dtype=np.int64)
    scores = np.array(list(call.values()), dtype=np.int64)
    return writer.encode([names[row] for row in call], rows, scores, state)


@given(st.data())
def test_cached_fragments_equal_the_encoder(data: st.DataObject) -> None:
    writer = HostPriorities(10)
    for state in range(data.draw(st.integers(1, 3))):
        names = data.draw(CLUSTERS)
        calls = st.dictionaries(st.integers(0, len(names) - 1), SCORES, max_size=8)
        for call in data.draw(st.lists(calls, max_size=4)):
            expected = [HostPriority(host=names[row], score=call[row]) for row in call]
            assert written(writer, names, call, state) == encode(expected)


def test_a_reused_row_has_its_new_name() -> None:
    writer = HostPriorities(10)
    for state, names in enumerate([["a", "b"], ["a", "c"], ["a", "b"]]):
        for score in (7, 8, 7):
            text = b'[{"Host":"%b","Score":%d},{"Host":"a","Score":0}]'
            expected = text % (names[1].encode(), score)
            assert written(writer, names, {1: score, 0: 0}, state) == expected
