"""Strategies of the RBAC kinds, PriorityClass, Lease and RuntimeClass.

Upstream: pkg/apis/{scheduling,rbac,coordination,node}/validation/validation.go and v1/defaults.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, metadata_of, name_of
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    duplicate,
    forbidden,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import NOT_NEGATIVE
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector, check_labels
from kubesched.cluster.apiserver.kinds.workload_rules import check_immutable, part_of, set_default
from kubesched.cluster.apiserver.names import (
    label_problems,
    path_segment_problems,
    subdomain_problems,
)
from kubesched.cluster.apiserver.strategy import Request, Strategy

_RBAC = "rbac.authorization.k8s.io"
_SYSTEM_PREFIX = "system-"
_SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_USER_PRIORITY_MAX = 1_000_000_000


def cluster_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of these groups."""
    return {
        ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy(),
        (_RBAC, "roles"): RoleStrategy(),
        (_RBAC, "clusterroles"): ClusterRoleStrategy(),
        (_RBAC, "rolebindings"): BindingStrategy(("Role", "ClusterRole"), is_namespaced=True),
        (_RBAC, "clusterrolebindings"): BindingStrategy(("ClusterRole",), is_namespaced=False),
        ("coordination.k8s.io", "leases"): LeaseStrategy(),
        ("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy(),
    }


class PriorityClassStrategy(Strategy):
    """Strategy of priority classes."""

    has_status = False
    bumps_generation = False

    def default(self, document: Document) -> None:
        set_default(document, "preemptionPolicy", "PreemptLowerPriority")

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        name, value = name_of(document), document.get("value") or 0
        if name.startswith(_SYSTEM_PREFIX):
            problem = _system_class_problem(document)
            if problem:
                text = (
                    f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system "
                    f"use only. error: {problem}"
                )
                out.append(forbidden_field("metadata.name", text))
        elif value > _USER_PRIORITY_MAX:
            text = f"maximum allowed value of a user defined priority is {_USER_PRIORITY_MAX}"
            out.append(forbidden_field("value", text))
        policy = document.get("preemptionPolicy")
        if policy not in {None, "PreemptLowerPriority", "Never"}:
            known = ["PreemptLowerPriority", "Never"]
            out.append(not_supported("preemptionPolicy", policy, known))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        if (new.get("value") or 0) != (old.get("value") or 0):
            out.append(forbidden_field("value", "may not be changed in an update."))
        check_immutable(
            new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy", out
        )
        return out

    def admit_create(self, document: Document, request: Request) -> None:
        self._check_default(document, request)

    def admit_update(self, new: Document, old: Document, request: Request) -> None:
        self._check_default(new, request)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        # Parity: upstream sets it once and never increments it.
        metadata_of(document)["generation"] = 1

    def admit_delete(self, old: Document, request: Request) -> None:
        if name_of(old) in _SYSTEM_CLASSES:
            text = "this is a system priority class and cannot be deleted"
            raise forbidden("scheduling.k8s.io", "priorityclasses", name_of(old), text)

    def _check_default(self, document: Document, request: Request) -> None:
        # Parity: plugin/pkg/admission/priority/admission.go validatePriorityClass, v1.36.
        if not document.get("globalDefault"):
            return
        for other in request.reader.list("scheduling.k8s.io", "priorityclasses"):
            if other.get("globalDefault") and name_of(other) != name_of(document):
                text = (
                    f"PriorityClass {name_of(other)} is already marked as default. Only one "
                    "default can exist"
                )
                raise forbidden("scheduling.k8s.io", "priorityclasses", name_of(document), text)


def _system_class_problem(document: Document) -> str:
    name, value = name_of(document), document.get("value") or 0
    if name not in _SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_CLASSES[name]}"
    if document.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


class _RbacStrategy(Strategy):
    has_status = False
    bumps_generation = False
    allows_create_on_update = True

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        return path_segment_problems(name, is_prefix=is_prefix)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        self.check(document, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        self.check(new, out)
        return out

    def check(self, document: Document, out: list[Problem]) -> None:
        """Validate, adding errors."""
        raise NotImplementedError


class RoleStrategy(_RbacStrategy):
    """Strategy of roles."""

    is_namespaced = True

    def check(self, document: Document, out: list[Problem]) -> None:
        for index, rule in enumerate(document.get("rules") or ()):
            _check_rule(rule, f"rules[{index}]", out, is_namespaced=self.is_namespaced)


class ClusterRoleStrategy(RoleStrategy):
    """Strategy of cluster roles."""

    is_namespaced = False

    def check(self, document: Document, out: list[Problem]) -> None:
        super().check(document, out)
        rule = document.get("aggregationRule")
        if rule is None:
            return
        path, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            out.append(required(path, text))
        for index, selector in enumerate(selectors or ()):
            check_label_selector(selector, f"{path}[{index}]", out)


def _check_rule(rule: Document, path: str, out: list[Problem], *, is_namespaced: bool) -> None:
    if not rule.get("verbs"):
        out.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        child = f"{path}.nonResourceURLs"
        if is_namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            out.append(invalid(child, urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            out.append(invalid(child, urls, text))
        return
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        out.append(required(f"{path}.apiGroups", text))
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        out.append(required(f"{path}.resources", text))


class BindingStrategy(_RbacStrategy):
    """Strategy of role bindings of both scopes."""

    def __init__(self, role_kinds: tuple[str, ...], *, is_namespaced: bool) -> None:
        self._role_kinds = role_kinds
        self._is_namespaced = is_namespaced

    def default(self, document: Document) -> None:
        ref = part_of(document, "roleRef")
        ref["apiGroup"] = ref.get("apiGroup") or _RBAC
        for subject in document.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = _RBAC

    def check(self, document: Document, out: list[Problem]) -> None:
        ref = document.get("roleRef") or {}
        if ref.get("apiGroup") != _RBAC:
            out.append(not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), [_RBAC]))
        if ref.get("kind") not in self._role_kinds:
            out.append(not_supported("roleRef.kind", ref.get("kind", ""), self._role_kinds))
        name = ref.get("name") or ""
        if not name:
            out.append(required("roleRef.name"))
        out.extend(invalid("roleRef.name", name, text) for text in path_segment_problems(name))
        for index, subject in enumerate(document.get("subjects") or ()):
            self._check_subject(subject, f"subjects[{index}]", out)

    def _check_subject(self, subject: Document, path: str, out: list[Problem]) -> None:
        name, kind, group = subject.get("name"), subject.get("kind"), subject.get("apiGroup") or ""
        if not name:
            out.append(required(f"{path}.name"))
        if kind == "ServiceAccount":
            out.extend(
                invalid(f"{path}.name", name, text) for text in subdomain_problems(name or "x")
            )
            if group:
                out.append(not_supported(f"{path}.apiGroup", group, [""]))
            if not self._is_namespaced and not subject.get("namespace"):
                out.append(required(f"{path}.namespace"))
        elif kind in {"User", "Group"}:
            if group != _RBAC:
                out.append(not_supported(f"{path}.apiGroup", group, [_RBAC]))
        else:
            known = ["ServiceAccount", "User", "Group"]
            out.append(not_supported(f"{path}.kind", kind or "", known))

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = super().validate_update(new, old, request)
        if new.get("roleRef") != old.get("roleRef"):
            ref = new.get("roleRef") or {}
            # Parity: upstream prints the internal type, whose fields have no JSON names.
            internal = InOrder(
                {
                    "APIGroup": ref.get("apiGroup", ""),
                    "Kind": ref.get("kind", ""),
                    "Name": ref.get("name", ""),
                }
            )
            out.append(invalid("roleRef", internal, "cannot change roleRef"))
        return out


class LeaseStrategy(Strategy):
    """Strategy of leases."""

    has_status = False
    bumps_generation = False
    allows_create_on_update = True
    allows_unconditional_update = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        spec = document.get("spec") or {}
        out: list[Problem] = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            out.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            out.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
        if spec.get("preferredHolder") and not spec.get("strategy"):
            text = "may only be specified if `strategy` is defined"
            out.append(forbidden_field("spec.preferredHolder", text))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


class RuntimeClassStrategy(Strategy):
    """Strategy of runtime classes."""

    has_status = False
    bumps_generation = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        handler = document.get("handler") or ""
        if not handler:
            out.append(required("handler"))
        else:
            out.extend(invalid("handler", handler, text) for text in label_problems(handler))
        scheduling = document.get("scheduling") or {}
        check_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector", out)
        seen: list[tuple[str, ...]] = []
        for index, one in enumerate(scheduling.get("tolerations") or ()):
            key = tuple(one.get(field) or "" for field in ("key", "operator", "value", "effect"))
            if key in seen:
                out.append(duplicate(f"scheduling.tolerations[{index}]", one))
            seen.append(key)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        check_immutable(new.get("handler"), old.get("handler"), "handler", out)
        return out
