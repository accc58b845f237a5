"""Score normalization: scales raw scores to 0..100, with Go's integer arithmetic.

Upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go
"""

from __future__ import annotations

import numpy as np

from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.snapshot.node_columns import IntColumn


def default_normalize(scores: IntColumn, *, reverse: bool = False) -> IntColumn:
    """Scale scores so that the highest becomes 100; reversed, so that it becomes 0."""
    # Parity: helper/normalize_score.go DefaultNormalizeScore, v1.36: the maximum starts at 0.
    highest = max(int(scores.max(initial=0)), 0)
    if highest == 0:
        return np.full_like(scores, NODE_SCORE_MAX) if reverse else scores
    scaled = truncated_divide(NODE_SCORE_MAX * scores, highest)
    return NODE_SCORE_MAX - scaled if reverse else scaled


def truncated_divide(dividend: IntColumn, divisor: IntColumn | int) -> IntColumn:
    """Divide as Go does: truncated towards zero."""
    quotient = np.abs(dividend) // np.abs(divisor)
    return np.where((dividend < 0) != (np.asarray(divisor) < 0), -quotient, quotient)
