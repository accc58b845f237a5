"""What all tests share: hypothesis runs the same examples every time, for as many workers as fit.

Owns the hypothesis profile, how many workers `-n auto` is, and that garbage is looked for among
what tests make, not among the tests. Never holds fixtures of one package: those live beside its
tests.
"""

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["kubesched.pytest_plugin"]

# A red test must be red for everybody: examples come from the test's name, not from chance.
# No deadline, because the cores are shared and pytest-timeout bounds a test that hangs.
settings.register_profile("kubesched", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("kubesched")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Have what is collected out of the way of all looks for garbage: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: some always wait for a cluster's answers."""
    return (os.cpu_count() or 1) + 1
