"""An event loop on a thread of its own.

Owns its start and end, and the way of asking it anything from another thread. What runs on it is
its owner's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

ResultT = TypeVar("ResultT")
WAIT_S: Final = 30.0


class LoopThread:
    """A loop that turns until the block ends."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Make it; it turns from the beginning of the block.

        Args:
            name: Of the thread.
            loop: Which one; the quicker one where there is one if None.
        """
        self.loop = loop or new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)

    def run(self, work: Coroutine[Any, Any, ResultT], timeout_s: float = WAIT_S) -> ResultT:
        """Run something on the loop; return what it comes to."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def call(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something between two turns of the loop; return what it comes to."""

        async def do() -> ResultT:
            return act()

        return self.run(do())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return the quicker event loop where there is one, as the command does."""
    try:
        import uvloop  # noqa: PLC0415  # Not everywhere.
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
