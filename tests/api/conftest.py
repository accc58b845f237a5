"""Fixtures of the API tests: a namespace per test, and whether answers are recorded.

Owns the option --record. Servers come from kubesched.pytest_plugin (--server).
"""

from __future__ import annotations

from itertools import count

import pytest

from kubesched.testing import Api

_numbers = count(1)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> bool:
    """Return whether to record responses instead of comparing them."""
    return bool(request.config.getoption("--record"))


@pytest.fixture
def namespace(api: Api) -> str:
    """Return the name of a new namespace, which also serves as a text unique to the test."""
    name = f"test{next(_numbers):04}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.post("/api/v1/namespaces", body).must(201)
    return name
