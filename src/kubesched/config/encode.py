"""The effective configuration encoded as v1, as an object or YAML, as upstream writes it.

Owns the conversion from the internal types to v1, and which fields the encoder omits. Never sets
defaults.
Upstream: cmd/kube-scheduler/app/options/configfile.go encodeConfig
"""

import base64
from typing import Any

from kubesched.config.schema import (
    API_VERSION,
    ARGS,
    CONFIGURATION,
    TYPE_META,
    Scalar,
    Slice,
    StringMap,
    Struct,
    Type,
    attribute_of,
)
from kubesched.config.types import KubeSchedulerConfiguration, PluginArgs, RawArgs
from kubesched.golang.time import format_duration
from kubesched.golang.yaml_output import dump_yaml


def effective(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return the object that upstream's --write-config-to writes."""
    return _struct(config, CONFIGURATION)


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """Return the effective configuration as YAML, keys sorted as upstream sorts them."""
    return dump_yaml(effective(config))


def encode_args(args: PluginArgs) -> Any:
    """Return plugin arguments as v1 JSON, in-tree ones with their apiVersion and kind."""
    if args is None or isinstance(args, RawArgs):
        return args and args.value
    return _struct(args, ARGS[type(args).__name__])


def _encode(value: Any, kind: Type) -> Any:
    """Return a value as Go's encoder writes its type: empty optional fields left out."""
    if isinstance(kind, Scalar):
        return _scalar(value, kind)
    if isinstance(kind, Slice):
        return None if value is None else [_encode(item, kind.elem) for item in value]
    if isinstance(kind, StringMap):
        return value
    return _struct(value or {}, kind)


def _struct(source: Any, kind: Struct) -> dict[str, Any]:
    """Encode an internal value, or the wire form of a struct without an internal type."""
    out: dict[str, Any] = {}
    for name, field in kind.fields.items():
        if name in TYPE_META:
            out[name] = kind.name if name == "kind" else API_VERSION
            continue
        if kind.internal is None:
            value = source.get(name)
        else:
            value = getattr(source, attribute_of(name, field.type))
        if field.omitempty and (value is None if field.pointer else not value):
            continue
        out[name] = None if value is None and field.pointer else _encode(value, field.type)
    return out


def _scalar(value: Any, kind: Scalar) -> Any:
    match kind.kind:
        case "duration":
            return format_duration(value or 0)
        case "bytes":
            return base64.b64encode(value).decode()
        case "string":
            return value or ""
        case "bool":
            return bool(value)
        case "raw":
            return encode_args(value)
        case "float32":
            number = value or 0.0
            return int(number) if number == int(number) else number
    return value or 0
