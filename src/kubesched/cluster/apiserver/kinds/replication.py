"""Strategies of ReplicationController and PodTemplate.

Upstream: pkg/registry/core/{replicationcontroller,podtemplate}/strategy.go,
pkg/apis/core/validation/validation.go ValidateReplicationController
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, labels_of, name_of, namespace_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import check_not_negative
from kubesched.cluster.apiserver.kinds.pod import drop_disabled
from kubesched.cluster.apiserver.kinds.pod_defaults import default_pod_spec
from kubesched.cluster.apiserver.kinds.pod_options import STRICT_TEMPLATE, PodOptions
from kubesched.cluster.apiserver.kinds.pod_spec import check_pod_template
from kubesched.cluster.apiserver.kinds.pod_warnings import pod_warnings
from kubesched.cluster.apiserver.kinds.workload_rules import template_options
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_COUNTS = (
    "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
    "observedGeneration",
)  # fmt: skip


class ReplicationControllerStrategy(Strategy):
    """Strategy of ReplicationControllers."""

    orphans_by_default = True

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Validate a name; return the errors."""
        texts = subdomain_problems(name, is_prefix=is_prefix)
        return [text.replace("253 characters", "253 bytes") for text in texts]

    def default(self, document: Document) -> None:
        """Default selector, labels and replicas."""
        spec = document.setdefault("spec", {})
        template = spec.get("template")
        labels = labels_of(template or {})
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not document["metadata"].get("labels"):
                document["metadata"]["labels"] = dict(labels)
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if template is not None:
            default_pod_spec(template.setdefault("spec", {}))

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop fields of disabled features."""
        _drop(document["spec"].get("template"), None)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Drop fields of disabled features."""
        _drop(new["spec"].get("template"), (old.get("spec") or {}).get("template"))

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a controller; return the errors."""
        out: list[Problem] = []
        _check_controller(document["spec"], STRICT_TEMPLATE, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a controller."""
        out: list[Problem] = []
        options = template_options((old.get("spec") or {}).get("template"))
        _check_controller(new["spec"], options, out)
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        return status_problems(new.get("status") or {})

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a controller."""
        if old is not None:
            same = document["metadata"].get("generation") == old["metadata"].get("generation")
            if same:
                return []
        found = []
        texts = label_problems(name_of(document)) if old is None else []
        if texts:
            listed = " ".join(texts)
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in "
                f"surprising behavior; a DNS label is recommended: [{listed}]"
            )
        return found + pod_warnings(document["spec"].get("template") or {}, "spec.template")

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        replicas = (document.get("status") or {}).get("replicas") or 0
        return {
            "metadata.name": name_of(document),
            "metadata.namespace": namespace_of(document),
            "status.replicas": str(replicas),
        }


def _drop(template: Document | None, old: Document | None) -> None:
    if template is not None:
        drop_disabled(template.setdefault("spec", {}), (old or {}).get("spec"))


def _check_controller(spec: Document, options: PodOptions, out: list[Problem]) -> None:
    check_not_negative(spec.get("minReadySeconds") or 0, "spec.minReadySeconds", out)
    selector = spec.get("selector") or {}
    if not selector:
        out.append(required("spec.selector"))
    replicas = spec.get("replicas")
    if replicas is None:
        out.append(required("spec.replicas"))
    else:
        check_not_negative(replicas, "spec.replicas", out)
    template, path = spec.get("template"), "spec.template"
    if template is None:
        out.append(required(path))
        return
    labels = labels_of(template)
    if any(labels.get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        out.append(invalid(f"{path}.metadata.labels", labels or None, text))
    check_pod_template(template, path, out, options)
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        child = f"{path}.spec.restartPolicy"
        out.append(not_supported(child, pod.get("restartPolicy") or "", ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        text = "activeDeadlineSeconds in ReplicationController is not Supported"
        out.append(forbidden_field(f"{path}.spec.activeDeadlineSeconds", text))


def status_problems(status: Document) -> list[Problem]:
    """Validate counts of replicas; return the errors."""
    out: list[Problem] = []
    counts = {name: status.get(name) or 0 for name in _COUNTS}
    for name in _COUNTS:
        check_not_negative(counts[name], f"status.{name}", out)
    for name in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
        if counts[name] > counts["replicas"]:
            text = "cannot be greater than status.replicas"
            out.append(invalid(f"status.{name}", counts[name], text))
    if counts["availableReplicas"] > counts["readyReplicas"]:
        text = "cannot be greater than readyReplicas"
        out.append(invalid("status.availableReplicas", counts["availableReplicas"], text))
    return out


class PodTemplateStrategy(Strategy):
    """Strategy of PodTemplates."""

    has_status = False
    returns_deleted_object = True

    def default(self, document: Document) -> None:
        """Set the defaults of the template."""
        default_pod_spec(document.setdefault("template", {}).setdefault("spec", {}))

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop fields of disabled features."""
        _drop(document["template"], None)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Drop fields of disabled features."""
        _drop(new["template"], old.get("template"))

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a template; return the errors."""
        out: list[Problem] = []
        check_pod_template(document["template"], "template", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a template."""
        out: list[Problem] = []
        check_pod_template(new["template"], "template", out, template_options(old.get("template")))
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a template."""
        if old is not None and document.get("template") == old.get("template"):
            return []
        return pod_warnings(document["template"], "template")
