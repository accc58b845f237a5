"""What tests of and with kubesched share: clusters to run against, and a way to talk to them.

Owns the public test kit. Never holds a mock: servers are real or embedded, requests go over
loopback. `kubesched.testing.pytest_plugin` has the fixtures.
"""

from kubesched.testing.embedded import RunningEmbedded, embedded_cluster, embedded_server
from kubesched.testing.http import Answer, Api, Watch
from kubesched.testing.programs import MissingProgramError, Programs
from kubesched.testing.real_cluster import RealCluster, real_cluster
from kubesched.testing.server import ADMIN, PLAIN, ApiServer, TokenUser

__all__ = [
    "ADMIN",
    "PLAIN",
    "Answer",
    "Api",
    "ApiServer",
    "MissingProgramError",
    "Programs",
    "RealCluster",
    "RunningEmbedded",
    "TokenUser",
    "Watch",
    "embedded_cluster",
    "embedded_server",
    "real_cluster",
]
