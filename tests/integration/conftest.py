"""A server for each module: no scheduler meets nodes and pods that other tests left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubesched.testing import ADMIN, PLAIN, Api, ApiServer, embedded_server, real_cluster


@pytest.fixture(scope="module")
def api_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Run the server that --server names, for one module."""
    start = real_cluster if request.config.getoption("--server") == "real" else embedded_server
    with start() as server:
        yield server


@pytest.fixture(scope="module")
def api(api_server: ApiServer) -> Iterator[Api]:
    """Return a driver that asks as an administrator."""
    with api_server.api(ADMIN) as driver:
        yield driver


@pytest.fixture(scope="module")
def plain_api(api_server: ApiServer) -> Iterator[Api]:
    """Return a driver that asks as a user without any rights."""
    with api_server.api(PLAIN) as driver:
        yield driver
