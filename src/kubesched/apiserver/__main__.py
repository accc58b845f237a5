"""A server for trying: plain HTTP on loopback, everybody may do everything.

Owns nothing; the command of the package is cli.apiserver's.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from kubesched.apiserver.embedded import EmbeddedServer, Settings
from kubesched.kit.clock import SystemClock


async def _serve(options: argparse.Namespace) -> None:
    settings = Settings(port=options.port, data=options.data, has_tls=False)
    server = EmbeddedServer(settings, SystemClock())
    await server.start()
    logging.getLogger(__name__).info("serving at %s", server.url)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m kubesched.apiserver")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--data", type=Path, default=None)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
