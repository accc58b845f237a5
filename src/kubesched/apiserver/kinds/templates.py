"""Pod and claim templates inside other kinds.

Owns how a workload has its templates defaulted and judged, old ones leniently.
Upstream: pkg/api/pod/util.go GetValidationOptionsFromPodTemplate
"""

from __future__ import annotations

from kubesched.apiserver.documents import Document, dig
from kubesched.apiserver.errors import Problem
from kubesched.apiserver.kinds.options import STRICT_TEMPLATE, PodOptions, options_for_update
from kubesched.apiserver.kinds.pod_defaults import default_pod_spec
from kubesched.apiserver.kinds.pod_spec import check_pod_template
from kubesched.apiserver.kinds.pod_warnings import pod_warnings
from kubesched.apiserver.kinds.volume_defaults import default_claim_spec


def default_template(template: Document) -> None:
    """Fill in a pod template."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_claim_template(claim: Document) -> None:
    """Fill in a claim template of a stateful set."""
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("kind", "PersistentVolumeClaim")
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


def template_options(old: Document | None) -> PodOptions:
    """Return what a changed template is allowed because of the old one."""
    if old is None:
        return STRICT_TEMPLATE
    annotations = dig(old, "metadata", "annotations") or {}
    return options_for_update(old.get("spec") or {}, annotations, is_pod=False)


def check_template(
    template: Document, path: str, out: list[Problem], *, old: Document | None = None
) -> None:
    """Note what is wrong with a pod template; what an old one has may stay."""
    check_pod_template(template, path, out, template_options(old))


def template_warnings(template: Document, old: Document | None, path: str) -> list[str]:
    """Return what a user should know about a pod template, new or changed."""
    return [] if template == old else pod_warnings(template, path)
