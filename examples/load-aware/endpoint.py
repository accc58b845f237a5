"""Responds as Prometheus does, with loads from the command line: `endpoint.py node-1=0.9 ...`."""

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kubesched.kit.clock import SystemClock


class Loads(BaseHTTPRequestHandler):
    """Returns the same result for every query: the loads, with the current time."""

    def do_GET(self) -> None:  # The name is given by http.server.
        now_s = SystemClock().now_s()
        pairs = [one.split("=") for one in sys.argv[1:]]
        result = [{"metric": {"node": node}, "value": [now_s, load]} for node, load in pairs]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        ThreadingHTTPServer(("127.0.0.1", 9690), Loads).serve_forever()
