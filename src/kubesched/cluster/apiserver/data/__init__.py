"""Generated data: discovery, OpenAPI, printed columns and RBAC of Kubernetes v1.36.4."""

import gzip
from importlib import resources


def read_data(name: str) -> bytes:
    """Return a shipped file, uncompressed."""
    return gzip.decompress(resources.files(__name__).joinpath(name).read_bytes())
