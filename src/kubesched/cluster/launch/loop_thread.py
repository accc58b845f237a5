"""An event loop on a thread of its own.

Owns its lifecycle and calls from other threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

ResultT = TypeVar("ResultT")
WAIT_S: Final = 30.0


class LoopThread:
    """An event loop that runs until the block ends."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Create the loop; it runs from the start of the block.

        Args:
            name: Name of the thread.
            loop: The loop; a new one, uvloop's if installed, if None.
        """
        self.loop = loop or new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)

    def run(self, work: Coroutine[Any, Any, ResultT], timeout_s: float = WAIT_S) -> ResultT:
        """Run a coroutine on the loop; return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function on the loop; return its result."""

        async def call_function() -> ResultT:
            return function()

        return self.run(call_function())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's if installed."""
    try:
        import uvloop  # noqa: PLC0415  # Optional.
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
