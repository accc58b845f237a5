"""A server for trying: plain HTTP on loopback, everybody may do everything.

Owns nothing; the command of the package is cli.apiserver's.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import signal
from pathlib import Path

from kubesched.apiserver.auth.authentication import ADMIN
from kubesched.apiserver.auth.authorization import Authorizer
from kubesched.apiserver.serving import Parts, build_context, build_server
from kubesched.kit.clock import SystemClock


class _Everybody:
    def user_of(self, headers: object, peer_certificate: object = None) -> object:
        return ADMIN


async def _serve(options: argparse.Namespace) -> None:
    parts = Parts(
        clock=SystemClock(), seed=secrets.randbits(63), data=options.data, port=options.port
    )
    context = build_context(parts)
    server = build_server(context, parts, authenticator=_Everybody(), authorizer=Authorizer())
    await server.start("127.0.0.1", options.port)
    print(f"http://127.0.0.1:{server.port}", flush=True)
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
    logging.basicConfig(level=logging.INFO)
    asyncio.run(_serve(parser.parse_args()))


main()
