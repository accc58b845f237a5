"""Strategies of the group apps: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision.

Upstream: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go,
pkg/registry/apps/*/strategy.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, copy_of, dig, metadata_of, name_of
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import check_dns_label, check_not_negative
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector, selects
from kubesched.cluster.apiserver.kinds.volume_claims import check_claim_spec
from kubesched.cluster.apiserver.kinds.workload_rules import (
    amount_of,
    check_always_restarts,
    check_available,
    check_collisions,
    check_counts,
    check_immutable,
    check_int_or_percent,
    check_not_over_replicas,
    check_percent_limit,
    check_selector,
    check_template,
    check_template_labels,
    default_claim_template,
    default_template,
    is_empty_selector,
    name_warnings,
    part_of,
    set_default,
    template_warnings,
)
from kubesched.cluster.apiserver.names import label_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_ROLLING, _RECREATE, _ON_DELETE = "RollingUpdate", "Recreate", "OnDelete"


def apps_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the group."""
    return {
        ("apps", "deployments"): DeploymentStrategy(),
        ("apps", "replicasets"): ReplicaSetStrategy(),
        ("apps", "statefulsets"): StatefulSetStrategy(),
        ("apps", "daemonsets"): DaemonSetStrategy(),
        ("apps", "controllerrevisions"): ControllerRevisionStrategy(),
    }


def _spec_of(document: Document) -> Document:
    return part_of(document, "spec")


class _Workload(Strategy):
    """Base strategy of the four workload kinds."""

    warns_of_name = True

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        found: list[str] = []
        if old is None and self.warns_of_name:
            found += name_warnings(name_of(document))
        template = dig(document, "spec", "template") or {}
        before = None if old is None else dig(old, "spec", "template")
        if old is None or document.get("spec") != old.get("spec"):
            found += template_warnings(template, before, "spec.template")
        return found


class _Replicated(_Workload):
    """Base strategy of Deployments and ReplicaSets, whose selector is immutable."""

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        return self._problems(document, None)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self._problems(new, old)
        check_immutable(dig(new, "spec", "selector"), dig(old, "spec", "selector"),
                        "spec.selector", out)  # fmt: skip
        return out

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        """Validate a new or updated object."""
        raise NotImplementedError


class DeploymentStrategy(_Replicated):
    """Strategy of deployments."""

    def default(self, document: Document) -> None:
        spec = _spec_of(document)
        default_template(part_of(spec, "template"))
        set_default(spec, "replicas", 1)
        strategy = part_of(spec, "strategy")
        strategy["type"] = strategy.get("type") or _ROLLING
        if strategy["type"] == _ROLLING:
            rolling = part_of(strategy, "rollingUpdate")
            set_default(rolling, "maxUnavailable", "25%")
            set_default(rolling, "maxSurge", "25%")
        set_default(spec, "revisionHistoryLimit", 10)
        set_default(spec, "progressDeadlineSeconds", 600)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        # Annotations are copied to ReplicaSets, so a change increments the generation.
        before, after = dig(old, "metadata", "annotations"), dig(new, "metadata", "annotations")
        if (before or {}) != (after or {}):
            generation = dig(old, "metadata", "generation") or 0
            metadata_of(new)["generation"] = generation + 1

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        spec, out = _spec_of(document), []  # type: ignore[var-annotated]
        check_not_negative(spec.get("replicas") or 0, "spec.replicas", out)
        _check_pods(spec, old, "deployment", out)
        self._check_strategy(spec.get("strategy") or {}, out)
        check_counts(spec, ("minReadySeconds", "revisionHistoryLimit"), out, path="spec")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            check_not_negative(deadline, "spec.progressDeadlineSeconds", out)
            if deadline <= (spec.get("minReadySeconds") or 0):
                text = "must be greater than minReadySeconds"
                out.append(invalid("spec.progressDeadlineSeconds", deadline, text))
        return out

    def _check_strategy(self, strategy: Document, out: list[Problem]) -> None:
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind == _RECREATE:
            if rolling is not None:
                text = f"may not be specified when strategy `type` is '{_RECREATE}'"
                out.append(forbidden_field("spec.strategy.rollingUpdate", text))
        elif kind == _ROLLING:
            _check_rolling_deployment(rolling or {}, out)
        else:
            internal = _go_struct(strategy, ("type", "Type"), ("rollingUpdate", "RollingUpdate"))
            out.append(not_supported("spec.strategy", internal, [_RECREATE, _ROLLING]))

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        labels = dig(old, "metadata", "labels")
        metadata_of(new).pop("labels", None)
        if labels:
            metadata_of(new)["labels"] = copy_of(labels)

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        status, out = new.get("status") or {}, []  # type: ignore[var-annotated]
        counts = ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas",
                  "availableReplicas", "unavailableReplicas", "terminatingReplicas",
                  "collisionCount")  # fmt: skip
        check_counts(status, counts, out)
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        check_not_over_replicas(status, parts, out)
        check_available(status, "readyReplicas", out)
        check_collisions(new, old, out)
        return out


class ReplicaSetStrategy(_Replicated):
    """Strategy of replica sets."""

    def default(self, document: Document) -> None:
        spec = _spec_of(document)
        default_template(part_of(spec, "template"))
        set_default(spec, "replicas", 1)

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        spec, out = _spec_of(document), []  # type: ignore[var-annotated]
        check_counts(spec, ("replicas", "minReadySeconds"), out, path="spec")
        _check_pods(spec, old, "deployment", out)
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        status, out = new.get("status") or {}, []  # type: ignore[var-annotated]
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        check_counts(status, ("replicas", *parts, "observedGeneration", "terminatingReplicas"), out)
        check_not_over_replicas(status, parts, out)
        check_available(status, "readyReplicas", out)
        return out


class StatefulSetStrategy(_Workload):
    """Strategy of stateful sets."""

    warns_of_name = False
    _FREE = ("replicas", "template", "updateStrategy", "minReadySeconds", "ordinals",
             "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy")  # fmt: skip

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        return label_problems(name, is_prefix=is_prefix)

    def default(self, document: Document) -> None:
        spec = _spec_of(document)
        default_template(part_of(spec, "template"))
        for claim in spec.get("volumeClaimTemplates") or ():
            default_claim_template(claim)
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        strategy = part_of(spec, "updateStrategy")
        if not strategy.get("type"):
            strategy["type"] = _ROLLING
            part_of(strategy, "rollingUpdate")
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == _ROLLING and rolling is not None:
            set_default(rolling, "partition", 0)
        policy = part_of(spec, "persistentVolumeClaimRetentionPolicy")
        policy["whenDeleted"] = policy.get("whenDeleted") or "Retain"
        policy["whenScaled"] = policy.get("whenScaled") or "Retain"
        set_default(spec, "replicas", 1)
        set_default(spec, "revisionHistoryLimit", 10)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        self._drop_max_unavailable(document, None)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        self._drop_max_unavailable(new, old)

    def _drop_max_unavailable(self, document: Document, old: Document | None) -> None:
        # Parity: behind the gate MaxUnavailableStatefulSet, which is off in v1.36.
        path = ("spec", "updateStrategy", "rollingUpdate")
        rolling = dig(document, *path)
        if rolling and (old is None or dig(old, *path, "maxUnavailable") is None):
            rolling.pop("maxUnavailable", None)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        return self._problems(document, None)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self._problems(new, old)
        before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
        for field in self._FREE:
            before.pop(field, None)
            after.pop(field, None)
        if before != after:
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
                "'template', 'updateStrategy', 'revisionHistoryLimit', "
                "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
            )
            out.append(forbidden_field("spec", text))
        return out

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        spec, out = _spec_of(document), []
        policy = spec.get("podManagementPolicy")
        if policy not in {"OrderedReady", "Parallel"}:
            text = "must be 'OrderedReady' or 'Parallel'"
            out.append(invalid("spec.podManagementPolicy", policy, text))
        self._check_strategy(spec.get("updateStrategy") or {}, out)
        retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for field in ("whenDeleted", "whenScaled"):
            if retention.get(field) not in {"Retain", "Delete"}:
                path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
                out.append(not_supported(path, retention.get(field), ["Retain", "Delete"]))
        claims = spec.get("volumeClaimTemplates") or []
        if old is None:
            for index, claim in enumerate(claims):
                path = f"spec.volumeClaimTemplates[{index}].spec"
                check_claim_spec(claim.get("spec") or {}, path, out)
        check_counts(spec, ("replicas", "minReadySeconds"), out, path="spec")
        start = dig(spec, "ordinals", "start")
        if start is not None:
            check_not_negative(start, "spec.ordinals.start", out)
        if old is None and spec.get("serviceName"):
            check_dns_label(spec["serviceName"], "spec.serviceName", out)
        if check_selector(spec, "spec", "statefulset", out):
            check_template_labels(spec, "spec", out)
            check_template(_template_with_claims(spec), "spec.template", out,
                           old=_template_of(old))  # fmt: skip
        else:
            out.append(invalid("spec.selector", spec.get("selector"), ""))
        check_always_restarts(spec, "spec", "StatefulSet", out)
        return out

    def _check_strategy(self, strategy: Document, out: list[Problem]) -> None:
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        path = "spec.updateStrategy"
        if kind == _ON_DELETE:
            if rolling is not None:
                internal = _go_struct(rolling, ("partition", "Partition"),
                                   ("maxUnavailable", "MaxUnavailable"))  # fmt: skip
                text = f"only allowed for updateStrategy '{_ROLLING}'"
                out.append(invalid(f"{path}.rollingUpdate", internal, text))
        elif kind == _ROLLING:
            if rolling is not None:
                check_not_negative(rolling.get("partition") or 0,
                                   f"{path}.rollingUpdate.partition", out)  # fmt: skip
                if rolling.get("maxUnavailable") is not None:
                    here, value = f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
                    check_int_or_percent(value, here, out)
                    if amount_of(value) == 0:
                        out.append(invalid(here, value, "cannot be 0"))
                    check_percent_limit(value, here, out)
        else:
            internal = _go_struct(strategy, ("type", "Type"), ("rollingUpdate", "RollingUpdate"))
            out.append(invalid(path, internal, f"must be '{_ROLLING}' or '{_ON_DELETE}'"))

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        status, out = new.get("status") or {}, []  # type: ignore[var-annotated]
        parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        check_counts(status, ("replicas", *parts, "observedGeneration", "collisionCount"), out)
        check_not_over_replicas(status, parts, out)
        check_available(status, "status.readyReplicas", out)
        check_collisions(new, old, out)
        return out


class DaemonSetStrategy(_Workload):
    """Strategy of daemon sets."""

    _TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"

    def default(self, document: Document) -> None:
        spec = _spec_of(document)
        default_template(part_of(spec, "template"))
        strategy = part_of(spec, "updateStrategy")
        strategy["type"] = strategy.get("type") or _ROLLING
        if strategy["type"] == _ROLLING:
            rolling = part_of(strategy, "rollingUpdate")
            set_default(rolling, "maxUnavailable", 1)
            set_default(rolling, "maxSurge", 0)
        set_default(spec, "revisionHistoryLimit", 10)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        # Parity: apps/v1 conversion keeps the template's generation in an annotation.
        annotations = part_of(metadata_of(document), "annotations")
        if not _is_positive(annotations.get(self._TEMPLATE_GENERATION)):
            annotations[self._TEMPLATE_GENERATION] = "1"

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        before = dig(old, "metadata", "annotations", self._TEMPLATE_GENERATION) or "0"
        generation = int(before) if _is_positive(before) else 0
        if dig(old, "spec", "template") != dig(new, "spec", "template"):
            generation += 1
        annotations = part_of(metadata_of(new), "annotations")
        annotations[self._TEMPLATE_GENERATION] = str(generation)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        return self._problems(document, None)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        check_immutable(dig(new, "spec", "selector"), dig(old, "spec", "selector"),
                        "spec.selector", out)  # fmt: skip
        return [*out, *self._problems(new, old)]

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        spec, out = _spec_of(document), []  # type: ignore[var-annotated]
        selector, before = spec.get("selector"), len(out)
        check_label_selector(selector, "spec.selector", out)
        labels = dig(spec, "template", "metadata", "labels") or {}
        if len(out) == before and not selects(selector, labels):
            text = "`selector` does not match template `labels`"
            out.append(invalid("spec.template.metadata.labels", labels or None, text))
        if selector is not None and is_empty_selector(selector):
            text = "empty selector is invalid for daemonset"
            out.append(invalid("spec.selector", selector, text))
        check_template(spec.get("template") or {}, "spec.template", out, old=_template_of(old))
        check_always_restarts(spec, "spec", "DaemonSet", out)
        check_counts(spec, ("minReadySeconds",), out, path="spec")
        self._check_strategy(spec.get("updateStrategy") or {}, out)
        check_counts(spec, ("revisionHistoryLimit",), out, path="spec")
        return out

    def _check_strategy(self, strategy: Document, out: list[Problem]) -> None:
        kind, path = strategy.get("type"), "spec.updateStrategy.rollingUpdate"
        if kind == _ON_DELETE:
            return
        if kind != _ROLLING:
            internal = _go_struct(strategy, ("type", "Type"), ("rollingUpdate", "RollingUpdate"))
            out.append(not_supported("spec.updateStrategy", internal, [_ROLLING, _ON_DELETE]))
            return
        rolling = strategy.get("rollingUpdate") or {}
        for check in (check_int_or_percent, check_percent_limit):
            for field in ("maxUnavailable", "maxSurge"):
                check(rolling.get(field), f"{path}.{field}", out)
        unavailable, surge = amount_of(rolling.get("maxUnavailable")), rolling.get("maxSurge")
        if unavailable and amount_of(surge):
            text = "may not be set when maxUnavailable is non-zero"
            out.append(invalid(f"{path}.maxSurge", surge, text))
        elif not unavailable and not amount_of(surge):
            out.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        status, out = new.get("status") or {}, []  # type: ignore[var-annotated]
        counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
                  "numberReady", "observedGeneration", "updatedNumberScheduled",
                  "numberAvailable", "numberUnavailable", "collisionCount")  # fmt: skip
        check_counts(status, counts, out)
        check_collisions(new, old, out)
        return out


class ControllerRevisionStrategy(Strategy):
    """Strategy of controller revisions, whose data is immutable."""

    has_status = False
    bumps_generation = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        check_not_negative(document.get("revision") or 0, "revision", out)
        if document.get("data") is None:
            out.append(required("data", "data is mandatory"))
        elif not isinstance(document["data"], dict):
            out.append(required("data", "data must be a valid JSON object"))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        check_not_negative(new.get("revision") or 0, "revision", out)
        check_immutable(new.get("data"), old.get("data"), "data", out)
        return out


def _check_pods(spec: Document, old: Document | None, whose: str, out: list[Problem]) -> None:
    if check_selector(spec, "spec", whose, out):
        check_template_labels(spec, "spec", out)
        check_template(spec.get("template") or {}, "spec.template", out, old=_template_of(old))
        check_always_restarts(spec, "spec", "ReplicaSet", out)
    else:
        out.append(invalid("spec.selector", spec.get("selector"), "invalid label selector"))


def _template_of(document: Document | None) -> Document | None:
    if document is None:
        return None
    found: Document | None = dig(document, "spec", "template")
    return found


def _template_with_claims(spec: Document) -> Document:
    """Return the pod template with a volume for each claim template."""
    template = spec.get("template") or {}
    claims = [dig(claim, "metadata", "name") or "" for claim in
              spec.get("volumeClaimTemplates") or ()]  # fmt: skip
    pod_spec = dict(template.get("spec") or {})
    # The controller overwrites both.
    pod_spec.pop("subdomain", None)
    pod_spec.pop("hostname", None)
    if claims:
        own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        others = [
            volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims
        ]
        pod_spec["volumes"] = [*own, *others]
    return {**template, "spec": pod_spec}


def _check_rolling_deployment(rolling: Document, out: list[Problem]) -> None:
    path = "spec.strategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    check_int_or_percent(unavailable, f"{path}.maxUnavailable", out)
    check_int_or_percent(surge, f"{path}.maxSurge", out)
    if amount_of(unavailable) == 0 and amount_of(surge) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        out.append(invalid(f"{path}.maxUnavailable", unavailable, text))
    check_percent_limit(unavailable, f"{path}.maxUnavailable", out)


def _go_struct(document: Document, *names: tuple[str, str]) -> InOrder:
    # Parity: upstream prints the internal type, whose fields have no JSON names.
    return InOrder({go: document.get(json) for json, go in names})


def _is_positive(text: str | None) -> bool:
    return bool(text) and str(text).isdigit() and int(str(text)) > 0
