"""Configuration of the whole test suite: hypothesis profiles, xdist workers, garbage collection.

Fixtures of one package are defined next to its tests.
"""

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["kubesched.pytest_plugin"]

# `make test` runs the same examples for everybody: they derive from the test's name.
# `make random-properties` runs other examples each time, and prints the seed.
# No deadline, because the cores are shared and pytest-timeout bounds a test that hangs.
settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Freeze the collected tests, so that garbage collection skips them: they live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: some always wait for a cluster."""
    return (os.cpu_count() or 1) + 1
