"""The public test kit: clusters, clients, builders, assertions and checks of plugins.

Has no mocks: servers are real or embedded, and requests go over loopback. The fixtures are in
`kubesched.pytest_plugin`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kubesched.api.builders import a_node, a_pod
from kubesched.cluster.launch.http import Api, Response, Watch
from kubesched.cluster.launch.processes import Usage, usage_of
from kubesched.cluster.launch.programs import MissingProgramError, Programs
from kubesched.cluster.launch.real_cluster import RealCluster, real_cluster
from kubesched.cluster.launch.schedulers import (
    SCHEDULERS,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    start_scheduler,
)
from kubesched.cluster.launch.server import ADMIN, PLAIN, ApiServer, TokenUser
from kubesched.config.errors import ConfigError

if TYPE_CHECKING:
    from kubesched.cluster.launch.embedded import RunningEmbedded, embedded_cluster, embedded_server
    from kubesched.testing.assertions import (
        assert_fits,
        assert_placed,
        assert_prefers,
        assert_rejected,
        assert_waits,
    )
    from kubesched.testing.cluster import Cluster
    from kubesched.testing.decisions import Decided, decided
    from kubesched.testing.plugin_checks import PluginCheckError, PluginReport, check_plugin
    from kubesched.testing.recordings import RECORDED, recorded, recorded_path, waiting_pods

__all__ = [
    "ADMIN",
    "PLAIN",
    "RECORDED",
    "SCHEDULERS",
    "Api",
    "ApiServer",
    "Cluster",
    "ConfigError",
    "Decided",
    "MissingProgramError",
    "PluginCheckError",
    "PluginReport",
    "Programs",
    "RealCluster",
    "Response",
    "RunningEmbedded",
    "SchedulerName",
    "SchedulerProcess",
    "SchedulerSettings",
    "TokenUser",
    "Usage",
    "Watch",
    "a_node",
    "a_pod",
    "assert_fits",
    "assert_placed",
    "assert_prefers",
    "assert_rejected",
    "assert_waits",
    "check_plugin",
    "decided",
    "embedded_cluster",
    "embedded_server",
    "real_cluster",
    "recorded",
    "recorded_path",
    "start_scheduler",
    "usage_of",
    "waiting_pods",
]

_MODULES: Final = {
    "cluster.launch.embedded": ("RunningEmbedded", "embedded_cluster", "embedded_server"),
    "testing.assertions": (
        "assert_fits",
        "assert_placed",
        "assert_prefers",
        "assert_rejected",
        "assert_waits",
    ),
    "testing.cluster": ("Cluster",),
    "testing.decisions": ("Decided", "decided"),
    "testing.plugin_checks": ("PluginCheckError", "PluginReport", "check_plugin"),
    "testing.recordings": ("RECORDED", "recorded", "recorded_path", "waiting_pods"),
}
_LAZY: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import names on first use that import large parts of the package."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kubesched.{_LAZY[name]}"), name)
