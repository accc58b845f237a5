"""What tests of and with kubesched share: clusters to run against, and a way to talk to them.

Owns the public test kit. Never holds a mock: servers are real or embedded, requests go over
loopback. `kubesched.pytest_plugin` has the fixtures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kubesched.config.errors import ConfigError
from kubesched.testing.builders import a_node, a_pod
from kubesched.testing.http import Answer, Api, Watch
from kubesched.testing.programs import MissingProgramError, Programs
from kubesched.testing.real_cluster import RealCluster, real_cluster
from kubesched.testing.schedulers import (
    SCHEDULERS,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    start_scheduler,
)
from kubesched.testing.server import ADMIN, PLAIN, ApiServer, TokenUser
from kubesched.testing.usage import Usage, usage_of

if TYPE_CHECKING:
    from kubesched.testing.assertions import (
        assert_fits,
        assert_placed,
        assert_prefers,
        assert_refused,
        assert_waits,
    )
    from kubesched.testing.cluster import Cluster
    from kubesched.testing.decisions import Decided, decided
    from kubesched.testing.embedded import RunningEmbedded, embedded_cluster, embedded_server
    from kubesched.testing.plugin_checks import PluginCheckError, PluginReport, check_plugin
    from kubesched.testing.recordings import RECORDED, recorded, recorded_path, waiting_pods

__all__ = [
    "ADMIN",
    "PLAIN",
    "RECORDED",
    "SCHEDULERS",
    "Answer",
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
    "assert_refused",
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
    "assertions": (
        "assert_fits",
        "assert_placed",
        "assert_prefers",
        "assert_refused",
        "assert_waits",
    ),
    "cluster": ("Cluster",),
    "decisions": ("Decided", "decided"),
    "embedded": ("RunningEmbedded", "embedded_cluster", "embedded_server"),
    "plugin_checks": ("PluginCheckError", "PluginReport", "check_plugin"),
    "recordings": ("RECORDED", "recorded", "recorded_path", "waiting_pods"),
}
_LATER: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what brings half of the package with it when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kubesched.testing.{_LATER[name]}"), name)
