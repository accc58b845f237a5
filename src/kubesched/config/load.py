"""Loading of configuration files.

Owns the order of the work: detect the format, find the kind, decode strictly, decode the
arguments of in-tree plugins, default, convert. Never validates and never opens a file.
Upstream: cmd/kube-scheduler/app/options/configfile.go loadConfig; apimachinery
pkg/runtime/serializer/json/json.go, versioning/versioning.go
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.config.decode import Decoded, decode
from kubesched.config.defaults import effective_configuration
from kubesched.config.errors import ConfigError
from kubesched.config.feature_gates import DEFAULT_GATES, FeatureGates
from kubesched.config.schema import ARGS, GROUP, KIND, KINDS, VERSION
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.golang.json import (
    Json,
    JsonSyntaxError,
    Object,
    from_builtins,
    json_type,
    parse_json,
    to_builtins,
)
from kubesched.golang.strconv import go_quote
from kubesched.golang.yaml import YamlError, decode_yaml

SCHEME = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_META_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_META_KEYS = {"apiversion": "apiVersion", "kind": "kind"}


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


def load_config(
    text: str | bytes, gates: FeatureGates = DEFAULT_GATES
) -> KubeSchedulerConfiguration:
    """Return the effective configuration of a file's text, YAML or JSON.

    Raises:
        ConfigError: At stage "decode", with upstream's text.
    """
    data = _encoded(text)
    tree, strict_errors = _parse(data)
    return _configuration(tree, data.decode("utf-8", "replace"), gates, strict_errors)


def load_config_object(document: Mapping[str, Any]) -> KubeSchedulerConfiguration:
    """Return the effective configuration of an already parsed document.

    Raises:
        ConfigError: At stage "decode", with upstream's text.
    """
    try:
        tree = from_builtins(dict(document))
    except JsonSyntaxError as error:
        raise _rejected(str(error)) from None
    return _configuration(tree, str(dict(document)))


def read_document(text: str | bytes) -> object:
    """Return the first document of a text as plain values, of any kind.

    Raises:
        ConfigError: At stage "decode", when it is neither YAML nor JSON.
    """
    return to_builtins(_parse(_encoded(text))[0])


def default_config(gates: FeatureGates = DEFAULT_GATES) -> KubeSchedulerConfiguration:
    """Return the default configuration."""
    return effective_configuration({}, gates)


def _encoded(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)


def _rejected(text: str) -> ConfigError:
    return ConfigError("decode", text)


def _parse(data: bytes) -> tuple[Json, list[str]]:
    """Parse JSON if the text begins with a brace, YAML otherwise; return strict errors, too."""
    try:
        if data.decode("utf-8", "replace").lstrip(_GO_SPACE).startswith("{"):
            return parse_json(data), []
        value, strict_errors = decode_yaml(data)
        return from_builtins(value), strict_errors[:1]
    except JsonSyntaxError as error:
        raise _rejected(f"couldn't get version/kind; json parse error: {error}") from None
    except YamlError as error:
        raise _rejected(str(error)) from None


# The characters of Go's unicode.IsSpace; Python also strips the separators 0x1c to 0x1f.
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B)
)


def _configuration(
    tree: Json,
    original: str,
    gates: FeatureGates = DEFAULT_GATES,
    yaml_errors: Sequence[str] = (),
) -> KubeSchedulerConfiguration:
    meta = _interpret(tree)
    if not meta.kind:
        raise _rejected(f"Object 'Kind' is missing in '{original}'")
    if not meta.version:
        raise _rejected(f"Object 'apiVersion' is missing in '{original}'")
    decoded = _decode_kind(tree, meta)
    strict_errors = [*yaml_errors, *decoded.strict_errors]
    if meta.kind == KIND:
        strict_errors += _decode_nested(decoded.values)
    if strict_errors:
        raise _rejected(_strict(strict_errors))
    if meta.kind != KIND:
        raise _rejected(
            f"couldn't decode as KubeSchedulerConfiguration, got {meta.group_version}, "
            f"Kind={meta.kind}: "
        )
    return effective_configuration(decoded.values, gates)


def _strict(errors: list[str]) -> str:
    return "strict decoding error: " + ", ".join(errors)


def _decode_kind(tree: Json, meta: _Meta) -> Decoded:
    """Decode a document as the type of its apiVersion and kind."""
    shape = KINDS.get(meta.kind) if (meta.group, meta.version) == (GROUP, VERSION) else None
    if shape is None:
        raise _rejected(_not_registered(meta))
    return decode(tree, shape)


def _not_registered(meta: _Meta) -> str:
    if meta.version == "__internal":
        where = f"the internal version of group {go_quote(meta.group)}"
    else:
        where = f"version {go_quote(meta.group_version)}"
    return f'no kind {go_quote(meta.kind)} is registered for {where} in scheme "{SCHEME}"'


def _interpret(tree: Json) -> _Meta:
    """Return group, version and kind; keys match in any case, as in Go's own package."""
    # Parity: serializer/json/meta.go SimpleMetaFactory.Interpret, v1.36
    prefix = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    meta = {"apiVersion": "", "kind": ""}
    error: str | None = None
    if isinstance(tree, Object):
        for key, value in tree.items:
            name = key if key in meta else _META_KEYS.get(_folded(key))
            if name is None or value is None:
                continue
            if isinstance(value, str):
                meta[name] = value
            elif error is None:
                error = f"{prefix} {json_type(value)} into Go struct field .{name} of type string"
    elif tree is not None:
        error = f"{prefix} {json_type(tree)} into Go value of type {_META_TYPE}"
    if error is not None:
        raise _rejected(error)
    group, version = _parse_group_version(meta["apiVersion"])
    return _Meta(group, version, meta["kind"])


def _folded(key: str) -> str:
    # Two letters fold to ASCII ones in Go: the long s and the Kelvin sign.
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()


def _parse_group_version(text: str) -> tuple[str, str]:
    if text in ("", "/"):
        return "", ""
    parts = text.split("/")
    if len(parts) == 1:
        return "", text
    if len(parts) == 2:
        return parts[0], parts[1]
    raise _rejected(f"unexpected GroupVersion string: {text}")


def _decode_nested(values: dict[str, Any]) -> list[str]:
    """Decode the arguments of in-tree plugins in place; return the strict errors."""
    # Parity: kube-scheduler config/v1/types.go DecodeNestedObjects, v1.36
    strict_errors: list[str] = []
    for i, profile in enumerate(values.get("profiles") or ()):
        for j, entry in enumerate(profile.get("pluginConfig") or ()):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            try:
                strict = _decode_args(entry)
            except ConfigError as error:
                raise _rejected(where + str(error)) from None
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
            raise _rejected(f"Object 'apiVersion' is missing in '{tree}'")
        decoded = _decode_kind(tree, meta)
    except ConfigError as error:
        raise _rejected(prefix + str(error)) from None
    if meta.group_kind != f"{kind}.{GROUP}":
        raise _rejected(
            f"args for plugin {name} were not of type {kind}.{GROUP}, got {meta.group_kind}"
        )
    entry["typed"] = decoded.values
    if not decoded.strict_errors:
        return None
    return _strict([prefix + _strict(decoded.strict_errors)])


def _with_defaults(meta: _Meta, kind: str) -> _Meta:
    """Return group, version and kind with the defaults of arguments."""
    # Parity: serializer/json/json.go gvkWithDefaults, v1.36
    group, version = meta.group, meta.version
    if not version and not group:
        group, version = GROUP, VERSION
    if not version and group == GROUP:
        version = VERSION
    return _Meta(group, version, meta.kind or kind)
