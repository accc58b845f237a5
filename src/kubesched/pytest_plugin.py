"""Fixtures of the test kit: `pytest_plugins = ["kubesched.pytest_plugin"]`.

Owns the choice of API server (--server embedded or real) and of controllers and kubelets
(--controllers own or real), and the scope of fixtures: `playground` per test, servers per session,
unless a module or conftest defines its own with `playground_fixture` and `server_fixtures`. Never
skips: tests fail if a requested real server cannot be started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from kubesched.cluster.launch.embedded import embedded_server
from kubesched.cluster.launch.http import Api
from kubesched.cluster.launch.real_cluster import RealCluster, real_cluster
from kubesched.cluster.launch.server import ADMIN, PLAIN, ApiServer
from kubesched.testing.recordings import RECORDED, recorded

if TYPE_CHECKING:
    from kubesched.cluster.playground.in_process import Playground
    from kubesched.testing.cluster import Cluster

Scope: TypeAlias = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kubesched")
    group.addoption(
        "--server",
        choices=["embedded", "real"],
        default="embedded",
        help="API server of the fixtures `api_server` and `playground`",
    )
    group.addoption(
        "--controllers",
        choices=["own", "real"],
        default="own",
        help="controllers and kubelets of the fixture `playground`: our own, or "
        "kube-controller-manager and KWOK",
    )
    group.addoption(
        "--programs",
        action="store_true",
        help="also run tests that need the programs built by `make control-plane`",
    )
    group.addoption(
        "--record",
        action="store_true",
        help="record the responses of the real server instead of comparing them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "programs: needs the programs built by `make control-plane`")
    config.addinivalue_line(
        "markers", "playground(nodes=4, plugins=(), config=None, ...): arguments of `playground`"
    )
    config.addinivalue_line(
        "markers",
        "cluster(plugins=(), args=None, config=None, recorded='', ...): arguments of `cluster`",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that need built programs, unless --programs is set."""
    if config.getoption("--programs"):
        return
    deselected = [item for item in items if item.get_closest_marker("programs")]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker("programs")]


def playground_fixture(scope: Scope) -> Any:
    """Return a fixture `playground` with a scope.

    `playground = playground_fixture("module")` in a module gives all its tests one cluster;
    `pytestmark = pytest.mark.playground(nodes=2)` sets its arguments.
    """

    @pytest.fixture(scope=scope)
    def playground(request: pytest.FixtureRequest) -> Iterator[Playground]:
        """Run a whole cluster: API server, nodes, kubelets, controllers, scheduler.

        `@pytest.mark.playground(nodes=2, plugins=[SpareGpu])` sets its arguments.
        """
        # Imported on demand: most tests need neither a server nor controllers.
        from kubesched.cluster.playground.in_process import playground as start  # noqa: PLC0415

        option = request.config.getoption
        options = {"server": option("--server"), "controllers": option("--controllers")}
        with (
            start(**options, **_marker_arguments(request, "playground")) as running,
            _keep_files_on_failure(running.server, request),
        ):
            yield running

    return playground


playground = playground_fixture("function")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Create a scheduler with an empty in-memory cluster and a clock that the test controls.

    `@pytest.mark.cluster(plugins=[SpareGpu])` sets its arguments;
    `@pytest.mark.cluster(recorded="gpu-pool")` adds the objects of a recorded cluster.
    """
    arguments = _marker_arguments(request, "cluster")
    yield from _new_cluster(arguments.pop("recorded", ""), arguments)


@pytest.fixture(params=RECORDED)
def recorded_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Create a `cluster` from each recorded one: the test runs once per recording."""
    arguments = _marker_arguments(request, "cluster")
    arguments.pop("recorded", "")
    yield from _new_cluster(request.param, arguments)


def _new_cluster(name: str, arguments: dict[str, Any]) -> Iterator[Cluster]:
    from kubesched.testing.cluster import Cluster  # noqa: PLC0415

    instance = Cluster(**arguments)
    try:
        if name:
            instance.add(*recorded(name))
        yield instance
    finally:
        instance.close()


def _marker_arguments(request: pytest.FixtureRequest, marker: str) -> dict[str, Any]:
    closest = request.node.get_closest_marker(marker)
    return {} if closest is None else dict(closest.kwargs)


def server_fixtures(scope: Scope) -> tuple[Any, Any, Any]:
    """Return the fixtures `api_server`, `api` and `plain_api` with a scope.

    `api_server, api, plain_api = server_fixtures("module")` in a conftest gives each module of its
    directory a fresh server.
    """

    @pytest.fixture(scope=scope)
    def api_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
        """Run the server that --server names."""
        start = real_cluster if request.config.getoption("--server") == "real" else embedded_server
        with start() as server, _keep_files_on_failure(server, request):
            yield server

    @pytest.fixture(scope=scope)
    def api(api_server: ApiServer) -> Iterator[Api]:
        """Return a client of the administrator."""
        with api_server.api(ADMIN) as driver:
            yield driver

    @pytest.fixture(scope=scope)
    def plain_api(api_server: ApiServer) -> Iterator[Api]:
        """Return a client of a user without permissions."""
        with api_server.api(PLAIN) as driver:
            yield driver

    return api_server, api, plain_api


api_server, api, plain_api = server_fixtures("session")


@pytest.fixture(scope="session")
def bare_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Run a real API server without controllers for the session."""
    with real_cluster("bare") as cluster, _keep_files_on_failure(cluster, request):
        yield cluster


@pytest.fixture(scope="session")
def whole_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Run a real cluster of three nodes for the session."""
    with real_cluster("whole") as cluster, _keep_files_on_failure(cluster, request):
        yield cluster


@contextmanager
def _keep_files_on_failure(server: ApiServer, request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the logs of a real server if a test failed while it ran."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before and isinstance(server, RealCluster):
        server.keep_files()
