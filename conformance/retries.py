"""Counts tests that passed only after a retry.

`scripts/conformance` names a file in KUBESCHED_RETRIES, adds up all parts of a run, and fails above
a bound.
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
