"""How a namespace ends.

Owns the finalize view: the only write that takes entries from spec.finalizers.
Upstream: pkg/registry/core/namespace/strategy.go namespaceFinalizeStrategy
"""

from __future__ import annotations

from kubesched.apiserver.documents import Document
from kubesched.apiserver.errors import Problem
from kubesched.apiserver.strategy import Request, Strategy


class FinalizeStrategy(Strategy):
    """What PUT on /finalize may change."""

    bumps_generation = False

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep the status."""
        del request
        if "status" in old:
            new["status"] = old["status"]

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Return what is wrong: nothing beyond metadata."""
        del new, old, request
        return []
