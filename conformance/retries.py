"""Counts tests that passed only after a retry.

`scripts/conformance` names a file in KUBESCHED_RETRIES, counts the retries of all parts of a run,
and fails above a limit.
"""

import os
from collections.abc import Iterable
from pathlib import Path


def count_retries(names: Iterable[str]) -> None:
    """Add the names of retried tests to the file of this run, if there is one."""
    file = os.environ.get("KUBESCHED_RETRIES")
    if file:
        with Path(file).open("a", encoding="utf-8") as retries:
            retries.writelines(f"{name}\n" for name in names)
