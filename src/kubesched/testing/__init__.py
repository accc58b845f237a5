"""What tests of and with kubesched share: clusters to run against, and a way to talk to them.

Owns the public test kit. Never holds a mock: servers are real or embedded, requests go over
loopback. `kubesched.pytest_plugin` has the fixtures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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
    from kubesched.testing.embedded import RunningEmbedded, embedded_cluster, embedded_server

__all__ = [
    "ADMIN",
    "PLAIN",
    "SCHEDULERS",
    "Answer",
    "Api",
    "ApiServer",
    "MissingProgramError",
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
    "embedded_cluster",
    "embedded_server",
    "real_cluster",
    "start_scheduler",
    "usage_of",
]

_EMBEDDED: Final = ("RunningEmbedded", "embedded_cluster", "embedded_server")


def __getattr__(name: str) -> Any:
    """Import the embedded server when it is asked for: it brings half of the package."""
    if name not in _EMBEDDED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kubesched.testing.embedded"), name)
