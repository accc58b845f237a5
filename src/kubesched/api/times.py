"""RFC 3339 timestamps of the API, parsed and formatted.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go
"""

import time
from functools import lru_cache

from kubesched.golang import time as go_time


@lru_cache(maxsize=65_536)
def parse_time(text: str) -> float:
    """Return seconds since the epoch; raise ValueError if it is not an RFC 3339 time."""
    seconds, fraction = go_time.parse_time(text)
    # Upstream keeps nanoseconds.
    return seconds + float(f"0.{fraction[:9]}")


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
