"""Times as documents have them.

Owns the writing of RFC 3339 texts. Reading them is objects.times'. Never reads a clock.
Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go
"""

from __future__ import annotations

import time
from functools import lru_cache


@lru_cache(maxsize=64)
def _text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def time_text(now_s: float) -> str:
    """Return the time in whole seconds."""
    return f"{_text(int(now_s))}Z"


def micro_time_text(now_s: float) -> str:
    """Return the time with microseconds."""
    micros = round(now_s * 1_000_000)
    return f"{_text(micros // 1_000_000)}.{micros % 1_000_000:06d}Z"
