"""Validation of the arguments of in-tree plugins.

Owns one validator per kind of arguments; plugin constructors call the same ones with an empty
path. Never raises: the messages are returned in upstream's order.
Upstream: pkg/scheduler/apis/config/validation/validation_pluginargs.go
"""

from collections.abc import Callable
from typing import Any

from kubesched.api.affinity import TopologySpreadConstraint
from kubesched.api.field_errors import (
    DurationValue,
    Typed,
    child,
    duplicate,
    forbidden,
    invalid,
    label_key_errors,
    not_supported,
    required,
)
from kubesched.api.node_selectors import node_selector_errors, preferred_terms_errors
from kubesched.config.types import (
    MAX_CUSTOM_PRIORITY_SCORE,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_DEFAULTING = ("System", "List")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_SECOND_NS = 1_000_000_000


def validate_default_preemption_args(args: DefaultPreemptionArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of DefaultPreemption."""
    errors: list[str] = []
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        errors.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        both = "cannot be zero at the same time as"
        errors.append(invalid(percentage_path, 0, f"{both} minCandidateNodesAbsolute"))
        errors.append(invalid(absolute_path, 0, f"{both} minCandidateNodesPercentage"))
    return errors


def validate_dynamic_resources_args(args: DynamicResourcesArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of DynamicResources."""
    errors: list[str] = []
    filtering, binding = args.filter_timeout_ns, args.binding_timeout_ns
    if filtering is not None and filtering < 0:
        shown = DurationValue(filtering)
        errors.append(invalid(child(path, "filterTimeout"), shown, "must be zero or positive"))
    if binding is not None and binding < _SECOND_NS:
        shown = DurationValue(binding)
        errors.append(invalid(child(path, "bindingTimeout"), shown, "must be at least 1 second"))
    return errors


def validate_inter_pod_affinity_args(args: InterPodAffinityArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of InterPodAffinity."""
    weight = args.hard_pod_affinity_weight
    if 0 <= weight <= 100:
        return []
    where = child(path, "hardPodAffinityWeight")
    return [invalid(where, weight, "not in valid range [0, 100]")]


def validate_node_affinity_args(args: NodeAffinityArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of NodeAffinity."""
    affinity = args.added_affinity
    if affinity is None:
        return []
    errors: list[str] = []
    added = child(path, "addedAffinity")
    selector = affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        where = child(added, "requiredDuringSchedulingIgnoredDuringExecution")
        errors += node_selector_errors(selector, where)
    terms = affinity.preferred_during_scheduling_ignored_during_execution
    if terms:
        where = child(added, "preferredDuringSchedulingIgnoredDuringExecution")
        errors += preferred_terms_errors(terms, where)
    return errors


def validate_node_resources_balanced_allocation_args(
    args: NodeResourcesBalancedAllocationArgs, path: str = ""
) -> list[str]:
    """Return the errors in arguments of NodeResourcesBalancedAllocation."""
    errors: list[str] = []
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        where = f"{child(path, 'resources')}[{index}]"
        if resource.name in seen:
            errors.append(duplicate(f"{where}.name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid(f"{where}.weight", resource.weight, "must be 1"))
    return errors


def validate_node_resources_fit_args(args: NodeResourcesFitArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of NodeResourcesFit."""
    errors: list[str] = []
    for index, name in enumerate(args.ignored_resources):
        errors += _label_name(name, f"{child(path, 'ignoredResources')}[{index}]")
    for index, group in enumerate(args.ignored_resource_groups):
        where = f"{child(path, 'ignoredResourceGroups')}[{index}]"
        if "/" in group:
            errors.append(invalid(where, group, "resource group name can't contain '/'"))
        errors += _label_name(group, where)
    where = child(path, "scoringStrategy")
    if args.scoring_strategy is None:
        errors.append(required(where, "ScoringStrategy field is required"))
    else:
        errors += _strategy(args.scoring_strategy, where)
    return errors


def _label_name(text: str, path: str) -> list[str]:
    return [invalid(path, text, message) for message in label_key_errors(text)]


def _strategy(strategy: ScoringStrategy, path: str) -> list[str]:
    errors: list[str] = []
    if strategy.type not in _STRATEGIES:
        errors.append(not_supported(f"{path}.type", Typed(strategy.type), _STRATEGIES))
    errors += _resource_weights(strategy.resources, f"{path}.resources")
    ratio = strategy.requested_to_capacity_ratio
    where = f"{path}.requestedToCapacityRatio"
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            errors.append(forbidden(where, "must be nil when type is not RequestedToCapacityRatio"))
    elif ratio is None:
        errors.append(required(where, "must be specified when type is RequestedToCapacityRatio"))
    else:
        errors += _function_shape(ratio.shape, f"{where}.shape")
    return errors


def _resource_weights(resources: tuple[ResourceSpec, ...], path: str) -> list[str]:
    return [
        invalid(
            f"{path}[{index}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for index, resource in enumerate(resources)
        if not 0 < resource.weight <= 100
    ]


def _function_shape(shape: tuple[UtilizationShapePoint, ...], path: str) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: list[str] = []
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            detail = "values must be sorted in increasing order"
            where = f"{path}[{index}].utilization"
            errors.append(invalid(where, shape[index].utilization, detail))
            break
    for index, point in enumerate(shape):
        where = f"{path}[{index}]"
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            errors.append(invalid(f"{where}.utilization", point.utilization, detail))
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            detail = f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]"
            errors.append(invalid(f"{where}.score", point.score, detail))
    return errors


def validate_pod_topology_spread_args(args: PodTopologySpreadArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of PodTopologySpread."""
    errors: list[str] = []
    type_path = child(path, "defaultingType")
    shown = Typed(args.defaulting_type)
    if args.defaulting_type not in _DEFAULTING:
        errors.append(not_supported(type_path, shown, _DEFAULTING))
    elif args.defaulting_type == "System" and args.default_constraints:
        errors.append(invalid(type_path, shown, "when .defaultConstraints are not empty"))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        where = f"{child(path, 'defaultConstraints')}[{index}]"
        errors += _constraint(constraint, where)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            errors.append(duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return errors


def _constraint(constraint: TopologySpreadConstraint, path: str) -> list[str]:
    errors: list[str] = []
    if constraint.max_skew <= 0:
        errors.append(
            invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
        )
    if constraint.topology_key:
        errors += _label_name(constraint.topology_key, f"{path}.topologyKey")
    else:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    action = constraint.when_unsatisfiable
    if not action:
        errors.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.whenUnsatisfiable", Typed(action), _ACTIONS))
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden(f"{path}.labelSelector", detail))
    return errors


def validate_volume_binding_args(args: VolumeBindingArgs, path: str = "") -> list[str]:
    """Return the errors in arguments of VolumeBinding."""
    errors: list[str] = []
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(child(path, "bindTimeoutSeconds"), args.bind_timeout_seconds, detail))
    if args.shape is not None:
        points = [{"Utilization": p.utilization, "Score": p.score} for p in args.shape]
        detail = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        errors.append(invalid(child(path, "shape"), points, detail))
    return errors


VALIDATORS: dict[type, Callable[[Any, str], list[str]]] = {
    DefaultPreemptionArgs: validate_default_preemption_args,
    DynamicResourcesArgs: validate_dynamic_resources_args,
    InterPodAffinityArgs: validate_inter_pod_affinity_args,
    NodeAffinityArgs: validate_node_affinity_args,
    NodeResourcesBalancedAllocationArgs: validate_node_resources_balanced_allocation_args,
    NodeResourcesFitArgs: validate_node_resources_fit_args,
    PodTopologySpreadArgs: validate_pod_topology_spread_args,
    VolumeBindingArgs: validate_volume_binding_args,
}
"""The validator of each type of arguments."""
