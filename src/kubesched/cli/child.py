"""`python -m kubesched.cli.child COMMAND...`: a kubesched command that stops with its parent.

Owns the watch on standard input: only the parent holds its other end, so it is closed when the
parent exits for any reason.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from kubesched.cli.main import main

_GRACE_S: Final = 5.0
"""Grace period after SIGTERM."""


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    main()
