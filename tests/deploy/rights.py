"""Checks that a process of kubesched got no 403.

Owns where rejections appear: logs and metrics. Expected values are never computed here.
"""

from __future__ import annotations

import re

from kubesched.cluster.launch.server import ADMIN
from tests.deploy.guide import Reader


def check_rights(reader: Reader, prefix: str) -> None:
    """Check that logs, and the metrics that the administrator may read, have no rejection."""
    for one in reader.agent.of(prefix):
        assert "orbidden" not in one.log
        code, text = one.page("/metrics", token=ADMIN.token)
        assert code == 200, text
        codes = set(re.findall(r'^rest_client_requests_total\{code="(\d+)"', text, re.MULTILINE))
        assert "200" in codes
        assert not codes & {"401", "403"}
        # Other users may not read them.
        assert one.page("/metrics")[0] == 403
