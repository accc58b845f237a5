"""What tests of and with kubesched share: clusters to run against, and a way to talk to them.

Owns the public test kit. Never holds a mock: servers are real or embedded, requests go over
loopback. `kubesched.testing.pytest_plugin` has the fixtures.
"""

from kubesched.testing.embedded import RunningEmbedded, embedded_cluster, embedded_server
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
    "embedded_cluster",
    "embedded_server",
    "real_cluster",
    "start_scheduler",
    "usage_of",
]
