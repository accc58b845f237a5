"""Fixtures of the test kit: `pytest_plugins = ["kubesched.pytest_plugin"]`.

Owns which server tests run against (--server embedded or real), whose controllers and kubelets are
beside it (--controllers own or real), and how long they live: `playground` for a test, servers for
the session, unless a module or a conftest makes its own of `playground_fixture` and
`server_fixtures`. Never skips: a real server that cannot be started fails the tests that ask for
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from kubesched.testing.embedded import embedded_server
from kubesched.testing.http import Api
from kubesched.testing.real_cluster import RealCluster, real_cluster
from kubesched.testing.recordings import RECORDED, recorded
from kubesched.testing.server import ADMIN, PLAIN, ApiServer

if TYPE_CHECKING:
    from kubesched.playground.in_process import Playground
    from kubesched.testing.cluster import Cluster

Scope: TypeAlias = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of a server."""
    group = parser.getgroup("kubesched")
    group.addoption(
        "--server",
        choices=["embedded", "real"],
        default="embedded",
        help="the API server that the fixtures `api_server` and `playground` run",
    )
    group.addoption(
        "--controllers",
        choices=["own", "real"],
        default="own",
        help="the controllers and kubelets of the fixture `playground`: our own, or "
        "kube-controller-manager and KWOK",
    )
    group.addoption(
        "--programs",
        action="store_true",
        help="also run the tests that need what `make control-plane` builds",
    )
    group.addoption(
        "--record",
        action="store_true",
        help="write the answers of the real server down instead of comparing them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "programs: needs what `make control-plane` builds")
    config.addinivalue_line(
        "markers", "playground(nodes=4, plugins=(), config=None, ...): how `playground` is made"
    )
    config.addinivalue_line(
        "markers",
        "cluster(plugins=(), args=None, config=None, recorded='', ...): how `cluster` is made",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that need built programs, unless they are asked for."""
    if config.getoption("--programs"):
        return
    left_out = [item for item in items if item.get_closest_marker("programs")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("programs")]


def playground_fixture(scope: Scope) -> Any:
    """Return a `playground` that lives as long as a test, a module, a session.

    `playground = playground_fixture("module")` in a module gives all its tests one cluster, which
    is as `pytestmark = pytest.mark.playground(nodes=2)` says.
    """

    @pytest.fixture(scope=scope)
    def playground(request: pytest.FixtureRequest) -> Iterator[Playground]:
        """Run a whole cluster: API server, nodes, kubelets, controllers, scheduler.

        `@pytest.mark.playground(nodes=2, plugins=[SpareGpu])` makes another than the usual one.
        """
        # Imported here: most tests need neither a server nor controllers.
        from kubesched.playground.in_process import playground as start  # noqa: PLC0415

        option = request.config.getoption
        chosen = {"server": option("--server"), "controllers": option("--controllers")}
        with (
            start(**chosen, **_asked(request, "playground")) as running,
            _kept_if_failed(running.server, request),
        ):
            yield running

    return playground


playground = playground_fixture("function")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Make a scheduler alone, with an empty cluster in memory and a clock that the test moves.

    `@pytest.mark.cluster(plugins=[SpareGpu])` makes another than the usual one, and
    `@pytest.mark.cluster(recorded="gpu-pool")` one that has what is in a recorded cluster.
    """
    asked = _asked(request, "cluster")
    yield from _made_cluster(asked.pop("recorded", ""), asked)


@pytest.fixture(params=RECORDED)
def recorded_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Make a `cluster` of each recorded one: a test that asks for it runs once for every one."""
    asked = _asked(request, "cluster")
    asked.pop("recorded", "")
    yield from _made_cluster(request.param, asked)


def _made_cluster(name: str, asked: dict[str, Any]) -> Iterator[Cluster]:
    from kubesched.testing.cluster import Cluster  # noqa: PLC0415

    made = Cluster(**asked)
    try:
        if name:
            made.add(*recorded(name))
        yield made
    finally:
        made.close()


def _asked(request: pytest.FixtureRequest, marker: str) -> dict[str, Any]:
    found = request.node.get_closest_marker(marker)
    return {} if found is None else dict(found.kwargs)


def server_fixtures(scope: Scope) -> tuple[Any, Any, Any]:
    """Return `api_server`, `api` and `plain_api` that live as long as a test, a module, a session.

    `api_server, api, plain_api = server_fixtures("module")` in a conftest gives each module of its
    directory a server on which nobody has left anything.
    """

    @pytest.fixture(scope=scope)
    def api_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
        """Run the server that --server names."""
        start = real_cluster if request.config.getoption("--server") == "real" else embedded_server
        with start() as server, _kept_if_failed(server, request):
            yield server

    @pytest.fixture(scope=scope)
    def api(api_server: ApiServer) -> Iterator[Api]:
        """Return a driver that asks as an administrator."""
        with api_server.api(ADMIN) as driver:
            yield driver

    @pytest.fixture(scope=scope)
    def plain_api(api_server: ApiServer) -> Iterator[Api]:
        """Return a driver that asks as a user without any rights."""
        with api_server.api(PLAIN) as driver:
            yield driver

    return api_server, api, plain_api


api_server, api, plain_api = server_fixtures("session")


@pytest.fixture(scope="session")
def bare_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Run a real API server, without controllers, for the whole session."""
    with real_cluster("bare") as cluster, _kept_if_failed(cluster, request):
        yield cluster


@pytest.fixture(scope="session")
def whole_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Run a real cluster of three nodes for the whole session."""
    with real_cluster("whole") as cluster, _kept_if_failed(cluster, request):
        yield cluster


@contextmanager
def _kept_if_failed(server: ApiServer, request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the logs of a server if a test failed while it ran; the embedded one writes none."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before and isinstance(server, RealCluster):
        server.keep_files()
