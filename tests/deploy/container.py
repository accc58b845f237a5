"""A container's command as a process of this machine: `python container.py FOLDER HOST COMMAND...`.

Owns what a container sees that a process does not: its own host name, and its service account,
which is in FOLDER. All the rest is the command's own: it finds the API server as in any pod.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from kubesched.cli.main import main
from kubesched.cli.run import reload as run_reload
from kubesched.client.auth import kubeconfig

if __name__ == "__main__":
    folder, host, program, *arguments = sys.argv[1:]
    assert program == "kubesched", program
    socket.gethostname = lambda: host
    kubeconfig.SERVICE_ACCOUNT = Path(folder)  # type: ignore[misc]  # A pod has one place for it.
    run_reload._NAMESPACE_FILE = Path(folder, "namespace")  # type: ignore[misc]  # As above.
    main(arguments=arguments)
