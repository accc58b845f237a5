"""`python -m kubesched.cli.child COMMAND...`: a command of kubesched that ends with its parent.

Owns the watch on standard input: its other end is held by the parent alone, so it is closed when
the parent is gone, however it went. What the command does is the command's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

from kubesched.cli.main import main

_IN_ORDER_S: Final = 5.0
"""How long the command has to end in order."""


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_IN_ORDER_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    main(sys.argv[1:])
