"""A real cluster for experiments: `make real-cluster`, `make real-cluster FORM=whole`.

Owns the command: starts the cluster, prints its address, waits for Ctrl-C. kubesched.testing
provides the cluster.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time

from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.testing import MissingProgramError


def main() -> int:
    """Run a cluster until a signal arrives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("form", choices=["bare", "whole"], nargs="?", default="bare")
    parser.add_argument("--port", type=int, help="port of kube-apiserver; a free one by default")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of a whole cluster")
    parser.add_argument(
        "--no-scheduler", action="store_true", help="leave the pods of a whole cluster pending"
    )
    options = parser.parse_args()
    # SIGHUP and SIGTERM end the run like Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    start = time.perf_counter()
    try:
        with real_cluster(
            options.form,
            port=options.port,
            nodes=options.nodes,
            scheduler=not options.no_scheduler,
        ) as cluster:
            took_s = time.perf_counter() - start
            print(f"a {options.form} real cluster is up at {cluster.url} after {took_s:.1f} s")
            print(f"  export KUBECONFIG={cluster.kubeconfig}")
            print(
                f"  logs are in {cluster.directory} while it runs; press Ctrl-C to stop", flush=True
            )
            signal.pause()
    except MissingProgramError as missing:
        print(missing, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
