"""Which Kubernetes this server behaves as.

Owns the document of /version.
Upstream: staging/src/k8s.io/apimachinery/pkg/version/types.go
"""

from __future__ import annotations

from typing import Final

from kubesched.apiserver.documents import Document

GIT_VERSION: Final = "v1.36.4"
VERSION: Final[Document] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
