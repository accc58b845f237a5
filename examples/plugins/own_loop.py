"""A scheduler beside other work, in a loop of one's own: `python own_loop.py`."""

import asyncio

from spare_gpu import SpareGpu

import kubesched


async def work() -> None:
    """Schedule for a minute; other tasks may run at the same time."""
    async with kubesched.Scheduler(plugins=[SpareGpu]) as scheduler:
        await scheduler.clock.sleep(60)


if __name__ == "__main__":
    asyncio.run(work())
