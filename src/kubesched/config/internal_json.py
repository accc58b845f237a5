"""Plugin arguments as upstream's messages show them: the internal type, written as JSON.

Owns the Go field names of the internal argument types. Never writes a configuration: encode
does, in the names of v1.
Upstream: pkg/scheduler/apis/config/types_pluginargs.go
"""

from typing import Any

import msgspec

from kubesched.config.gotext import format_duration
from kubesched.config.types import NodeAffinityArgs, PluginArgs, PodTopologySpreadArgs, RawArgs


def args_value(args: PluginArgs) -> Any:
    """Return arguments as the value that Go's json.Marshal makes of the internal object."""
    if isinstance(args, RawArgs):
        return args.value
    if isinstance(args, NodeAffinityArgs):
        return {"AddedAffinity": args.added_affinity_wire}
    if isinstance(args, PodTopologySpreadArgs):
        return {
            "DefaultConstraints": list(args.default_constraints_wire) or None,
            "DefaultingType": args.defaulting_type,
        }
    return _value(args)


def _value(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        return dict(_field(name, getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, tuple):
        return [_value(item) for item in value] or None
    return value


def _field(name: str, value: object) -> tuple[str, Any]:
    """Return a field under its Go name; times are shown as durations."""
    if name.endswith("_ns"):
        name = name.removesuffix("_ns")
        value = format_duration(value) if isinstance(value, int) else None
    return "".join(part.capitalize() for part in name.split("_")), _value(value)
