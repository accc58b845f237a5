"""The text of a configuration file turned into the effective configuration.

Owns the order of the work: recognise the format, find the kind, decode strictly, decode the
arguments of in-tree plugins, default, convert. Never validates and never opens a file.
Upstream: cmd/kube-scheduler/app/options/configfile.go loadConfig; apimachinery
pkg/runtime/serializer/json/json.go, versioning/versioning.go
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubesched.config.defaults import DefaultingGates, effective_configuration
from kubesched.config.errors import ConfigError
from kubesched.config.godecode import Decoded, DecodeError, decode
from kubesched.config.gojson import (
    Json,
    JsonSyntaxError,
    Number,
    Object,
    from_builtins,
    parse_json,
    to_builtins,
)
from kubesched.config.goyaml import yaml_to_json
from kubesched.config.schema import ARGS, GROUP, KIND, KINDS, VERSION
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.config.yaml_scalars import YamlError
from kubesched.objects.field_errors import go_quote

SCHEME = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_META_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_META_KEYS = {"apiversion": "apiVersion", "kind": "kind"}
_NEWEST = DefaultingGates()


class _Refused(Exception):  # noqa: N818 - not an error of ours but upstream's answer
    """A decoding failure that is not a matter of strictness; carries upstream's text."""


class _Meta(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class _Parsed(NamedTuple):
    """A document as a tree, with the YAML reader's strict complaint if there is one."""

    tree: Json
    strict_error: str | None


def load_config(text: str | bytes, gates: DefaultingGates = _NEWEST) -> KubeSchedulerConfiguration:
    """Return the effective configuration of a file's text, YAML or JSON.

    Raises:
        ConfigError: At stage "decode", with upstream's text.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    try:
        return _configuration(_parse(data), data.decode("utf-8", "replace"), gates)
    except _Refused as refused:
        raise ConfigError("decode", str(refused)) from None


def load_config_object(document: Mapping[str, Any]) -> KubeSchedulerConfiguration:
    """Return the effective configuration of an already parsed document.

    Raises:
        ConfigError: At stage "decode", with upstream's text.
    """
    try:
        parsed = _Parsed(from_builtins(dict(document)), None)
        return _configuration(parsed, str(dict(document)))
    except (_Refused, JsonSyntaxError) as refused:
        raise ConfigError("decode", str(refused)) from None


def read_document(text: str | bytes) -> object:
    """Return the first document of a text as plain values, whatever its kind.

    Raises:
        ConfigError: At stage "decode", when it is neither YAML nor JSON.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    try:
        return to_builtins(_parse(data).tree)
    except _Refused as refused:
        raise ConfigError("decode", str(refused)) from None


def default_config(gates: DefaultingGates = _NEWEST) -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler that was given none."""
    return effective_configuration({}, gates)


def _parse(data: bytes) -> _Parsed:
    """Read text as JSON when its first character says so, as YAML otherwise."""
    try:
        if data.decode("utf-8", "replace").lstrip(_GO_SPACE).startswith("{"):
            return _Parsed(parse_json(data), None)
        return _Parsed(*yaml_to_json(data))
    except JsonSyntaxError as error:
        raise _Refused(f"couldn't get version/kind; json parse error: {error}") from None
    except YamlError as error:
        raise _Refused(str(error)) from None


# What Go's unicode.IsSpace knows; Python also strips the separators 0x1c to 0x1f.
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B)
)


def _configuration(
    parsed: _Parsed, original: str, gates: DefaultingGates = _NEWEST
) -> KubeSchedulerConfiguration:
    meta = _interpret(parsed.tree)
    if not meta.kind:
        raise _Refused(f"Object 'Kind' is missing in '{original}'")
    if not meta.version:
        raise _Refused(f"Object 'apiVersion' is missing in '{original}'")
    decoded = _decode_kind(parsed, meta)
    strict_errors = list(decoded.strict_errors)
    if meta.kind == KIND:
        strict_errors += _decode_nested(decoded.values)
    if strict_errors:
        raise _Refused(_strict(strict_errors))
    if meta.kind != KIND:
        raise _Refused(
            f"couldn't decode as KubeSchedulerConfiguration, got {meta.group_version}, "
            f"Kind={meta.kind}: "
        )
    return effective_configuration(decoded.values, gates)


def _strict(errors: list[str]) -> str:
    return "strict decoding error: " + ", ".join(errors)


def _decode_kind(parsed: _Parsed, meta: _Meta) -> Decoded:
    """Decode a document as the type that its meta data names."""
    shape = KINDS.get(meta.kind) if (meta.group, meta.version) == (GROUP, VERSION) else None
    if shape is None:
        raise _Refused(_not_registered(meta))
    try:
        decoded = decode(parsed.tree, shape)
    except DecodeError as error:
        raise _Refused(str(error)) from None
    if parsed.strict_error is None:
        return decoded
    return Decoded(decoded.values, [parsed.strict_error, *decoded.strict_errors])


def _not_registered(meta: _Meta) -> str:
    if meta.version == "__internal":
        where = f"the internal version of group {go_quote(meta.group)}"
    else:
        where = f"version {go_quote(meta.group_version)}"
    return f'no kind {go_quote(meta.kind)} is registered for {where} in scheme "{SCHEME}"'


def _interpret(tree: Json) -> _Meta:
    """Return group, version and kind; keys match whatever their case, as in Go's own package."""
    # Parity: serializer/json/meta.go SimpleMetaFactory.Interpret, v1.36
    prefix = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    found = {"apiVersion": "", "kind": ""}
    error: str | None = None
    if isinstance(tree, Object):
        for key, value in tree.items:
            name = key if key in found else _META_KEYS.get(_folded(key))
            if name is None or value is None:
                continue
            if isinstance(value, str):
                found[name] = value
            elif error is None:
                error = f"{prefix} {_what(value)} into Go struct field .{name} of type string"
    elif tree is not None:
        error = f"{prefix} {_what(tree)} into Go value of type {_META_TYPE}"
    if error is not None:
        raise _Refused(error)
    group, version = _parse_group_version(found["apiVersion"])
    return _Meta(group, version, found["kind"])


def _folded(key: str) -> str:
    # Two letters fold to ASCII ones in Go: the long s and the Kelvin sign.
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()


def _what(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, Number):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _parse_group_version(text: str) -> tuple[str, str]:
    if text in ("", "/"):
        return "", ""
    parts = text.split("/")
    if len(parts) == 1:
        return "", text
    if len(parts) == 2:
        return parts[0], parts[1]
    raise _Refused(f"unexpected GroupVersion string: {text}")


def _decode_nested(values: dict[str, Any]) -> list[str]:
    """Decode the arguments of in-tree plugins in place; return the strict errors."""
    # Parity: kube-scheduler config/v1/types.go DecodeNestedObjects, v1.36
    strict_errors: list[str] = []
    for i, profile in enumerate(values.get("profiles") or ()):
        for j, entry in enumerate(profile.get("pluginConfig") or ()):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            try:
                strict = _decode_args(entry)
            except _Refused as refused:
                raise _Refused(where + str(refused)) from None
            if strict is not None:
                strict_errors.append(where + strict)
    return strict_errors


def _decode_args(entry: dict[str, Any]) -> str | None:
    name = entry.get("name", "")
    kind = f"{name}Args"
    if kind not in ARGS:
        return None
    prefix = f"decoding args for plugin {name}: "
    tree: Json = entry.get("args")
    try:
        meta = _with_defaults(_interpret(tree), kind)
        if not meta.version:
            raise _Refused(f"Object 'apiVersion' is missing in '{tree}'")
        decoded = _decode_kind(_Parsed(tree, None), meta)
    except _Refused as refused:
        raise _Refused(prefix + str(refused)) from None
    if meta.group_kind != f"{kind}.{GROUP}":
        raise _Refused(
            f"args for plugin {name} were not of type {kind}.{GROUP}, got {meta.group_kind}"
        )
    entry["typed"] = decoded.values
    if not decoded.strict_errors:
        return None
    return _strict([prefix + _strict(decoded.strict_errors)])


def _with_defaults(meta: _Meta, kind: str) -> _Meta:
    """Return meta data with what arguments may leave out."""
    # Parity: serializer/json/json.go gvkWithDefaults, v1.36
    group, version = meta.group, meta.version
    if not version and not group:
        group, version = GROUP, VERSION
    if not version and group == GROUP:
        version = VERSION
    return _Meta(group, version, meta.kind or kind)
