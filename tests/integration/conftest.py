"""A server for each module, so that no scheduler sees nodes and pods of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.pytest_plugin import server_fixtures

api_server, api, plain_api = server_fixtures("module")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ProcessGroup]:
    """Run programs for one test; none may exit early."""
    with ProcessGroup(tmp_path) as created:
        yield created
        created.check()
