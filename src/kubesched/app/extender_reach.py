"""Whether extenders can be reached, as far as a look from outside tells.

Owns a connection to the address of an extender, which is closed at once. Never asks it anything:
some extenders act on what they are asked.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

REACH_S_MAX: Final = 2.0
_PORTS: Final = {"http": 80, "https": 443}


async def reach_problem(url: str) -> str:
    """Return why nobody can be reached at an address; empty if somebody can."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as problem:
        return str(problem)
    if not parts.hostname or not port:
        return "no address of a server"
    try:
        opening = asyncio.open_connection(parts.hostname, port)
        _, writer = await asyncio.wait_for(opening, REACH_S_MAX)
    except TimeoutError:
        return f"no connection within {REACH_S_MAX:.0f} s"
    except OSError as problem:
        return problem.strerror or str(problem)
    writer.close()
    return ""
