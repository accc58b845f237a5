"""A server for each module: no scheduler meets nodes and pods that other tests left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.pytest_plugin import server_fixtures
from kubesched.testing.processes import ProcessGroup

api_server, api, plain_api = server_fixtures("module")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ProcessGroup]:
    """Run programs for one test; none of them may have ended by itself."""
    with ProcessGroup(tmp_path) as made:
        yield made
        made.check()
