"""Which controllers there are.

Owns the list. Never starts any.
Upstream: cmd/kube-controller-manager/app/controllermanager.go NewControllerDescriptors
"""

from __future__ import annotations

from typing import Final

from kubesched.controllers.controller import Controller

CONTROLLERS: Final[tuple[type[Controller], ...]] = ()
