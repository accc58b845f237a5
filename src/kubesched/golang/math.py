"""The natural logarithm as kube-scheduler's binary computes it.

Only for scores, in which the last bit matters: `math.log` is faster.
Upstream: Go's math.Log, which is the algorithm of Sun's e_log.c
"""

from __future__ import annotations

import math
from functools import lru_cache

_HALF_SQRT2 = math.sqrt(2) / 2
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01


@lru_cache(maxsize=65536)
def go_log(value: int) -> float:
    """Return the natural logarithm of a positive integer, to the bit as Go gives it on amd64."""
    # The C library rounds a few sizes the other way, and a raw score is rounded to an integer.
    # No step may be reordered or fused.
    fraction, exponent = math.frexp(float(value))
    if fraction < _HALF_SQRT2:
        fraction *= 2
        exponent -= 1
    f = fraction - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_L1 + s4 * (_L3 + s4 * (_L5 + s4 * _L7)))
    even = s4 * (_L2 + s4 * (_L4 + s4 * _L6))
    half_square = 0.5 * f * f
    correction = s * (half_square + (odd + even)) + exponent * _LN2_LOW
    return exponent * _LN2_HIGH - ((half_square - correction) - f)
