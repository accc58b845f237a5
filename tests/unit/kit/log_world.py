"""A logger whose lines a test can read."""

from typing import Any

from kubesched.kit.log import Log, make_log

NOON_S = 1_763_294_400.25


class StillClock:
    """A clock that stands still."""

    def now_s(self) -> float:
        return NOON_S

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError(f"unexpected sleep of {delay_s} s")


class Pages:
    """A stream that remembers each write and each flush."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.flush_count = 0

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)

    def flush(self) -> None:
        self.flush_count += 1

    @property
    def text(self) -> str:
        return "".join(self.writes)


def a_log(**options: Any) -> tuple[Log, Pages]:
    """Return a logger and its stream."""
    pages = Pages()
    return make_log(pages, clock=StillClock(), **options), pages
