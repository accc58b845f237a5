"""A container's command as a process of this machine: `python container.py FOLDER HOST COMMAND...`.

Owns the differences between a container and a process: the host name, and the service account,
which is in FOLDER. The command finds the API server as in any pod.
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
    kubeconfig.SERVICE_ACCOUNT = Path(folder)  # type: ignore[misc]  # The path in a pod is fixed.
    run_reload._NAMESPACE_FILE = Path(folder, "namespace")  # type: ignore[misc]  # As above.
    main(arguments=arguments)
