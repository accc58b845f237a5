"""Typed arguments of out-of-tree plugins: the args class, and the decoding of `pluginConfig`.

Owns the lookup of the args class, the strict decoding, and its error texts. `config` decodes the
arguments of in-tree plugins, with kube-scheduler's texts.
Upstream: none; Go plugins call DecodeInto of staging/src/k8s.io/kube-scheduler/framework.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kubesched.config.types import RawArgs

ArgsClass: TypeAlias = type[msgspec.Struct]

_TYPE_META: Final = ("apiVersion", "kind")
_MSGSPEC_PATH: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_MSGSPEC_MISSING: Final = re.compile(r"^Object missing required field `([^`]*)`")


class ArgsError(ValueError):
    """Invalid arguments of a plugin, or an invalid args class."""


class ArgsType(NamedTuple):
    """The type of the `args` parameter of a plugin class or factory."""

    struct: ArgsClass | None = None
    """The args class; None if there is none."""
    is_raw: bool = False
    """Whether the plugin takes its arguments undecoded."""
    is_optional: bool = False


class ArgsField(msgspec.Struct, frozen=True):
    """One field of an args class, with its name in a configuration."""

    name: str
    type: str
    required: bool = False
    default: Any = None


def decode_args(factory: Callable[..., Any], raw: RawArgs | None) -> Any:
    """Decode and validate the `args` of a plugin; raise ArgsError with a text of one line."""
    expected = args_type(factory)
    if expected.is_raw:
        return raw
    value = None if raw is None else raw.value
    if value is None and (expected.struct is None or expected.is_optional):
        return None
    if expected.struct is None:
        cls = made_class(factory)
        name = f"{'Plugin' if cls is None else cls.__name__}Args"
        raise ArgsError(
            "args are given, but the plugin takes none: annotate `args` of its constructor with "
            f"a {_struct_header(name)}"
        )
    return _decode(expected.struct, {} if value is None else value)


def args_fields(struct: ArgsClass) -> list[ArgsField]:
    """Return the fields of an args class."""
    hints = typing.get_type_hints(struct)
    return [
        ArgsField(
            _key(field), _type_name(hints.get(field.name, Any)), field.required, _default(field)
        )
        for field in _struct_type(struct).fields
    ]


# -- the args class -------------------------------------------------------------------------------


def args_type(factory: Callable[..., Any]) -> ArgsType:
    """Return the type of `args`; raise ArgsError if the args class is invalid."""
    function = factory
    if inspect.isclass(factory):
        function = factory.__init__
        if not inspect.isfunction(function):
            return ArgsType()
    accepted = parameters(function)
    if "args" not in accepted and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return ArgsType()
    annotation = _annotation(function)
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if is_union else (annotation,)
    choices = [member for member in members if member is not type(None)]
    is_optional = len(choices) < len(members)
    if choices == [RawArgs]:
        return ArgsType(is_raw=True)
    if len(choices) == 1 and _is_struct(choices[0]):
        return ArgsType(_frozen(choices[0]), is_optional=is_optional)
    for choice in choices:
        if inspect.isclass(choice) and is_dataclass(choice):
            name = choice.__name__
            raise ArgsError(
                f"{name} is a dataclass, which is not read strictly; write: {_struct_header(name)}"
            )
    cls = made_class(factory)
    if cls is not None:
        struct: Any = getattr(sys.modules.get(cls.__module__), f"{cls.__name__}Args", None)
        if _is_struct(struct):
            return ArgsType(_frozen(struct), is_optional=is_optional)
    return ArgsType(is_optional=is_optional)


def parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or function; empty if Python cannot inspect it."""
    try:
        return signature(factory).parameters
    except ValueError:
        return {}


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature without evaluating annotations: some exist only for type checkers."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415

        lazily = annotationlib.Format.FORWARDREF
        return inspect.signature(function, annotation_format=lazily)
    return inspect.signature(function)


def _annotation(function: Callable[..., Any]) -> Any:
    """Return the evaluated annotation of `args`."""
    parameter = parameters(function).get("args")
    annotation = None if parameter is None else parameter.annotation
    if annotation is None or annotation is inspect.Parameter.empty:
        return Any
    if hasattr(annotation, "__forward_arg__"):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        return annotation
    names = {**getattr(inspect.unwrap(function), "__globals__", {})}
    names |= inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    try:
        return eval(annotation, names)  # The plugin's own text, as Python would.
    except (AttributeError, NameError, SyntaxError, TypeError) as problem:
        raise ArgsError(
            f"the annotation {annotation!r} of args cannot be evaluated ({problem}): import the "
            "class at run time, not only for type checkers"
        ) from None


def made_class(factory: Callable[..., Any]) -> type | None:
    """Return the class of the plugins that a class or factory creates; None if it is unknown."""
    if inspect.isclass(factory):
        return factory
    try:
        cls = typing.get_type_hints(factory).get("return")
    except (NameError, TypeError):
        return None
    return cls if inspect.isclass(cls) and cls not in (object, type(None)) else None


def _is_struct(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, msgspec.Struct)


def _frozen(struct: ArgsClass) -> ArgsClass:
    if not struct.__struct_config__.frozen:
        name = struct.__name__
        raise ArgsError(f"{name} is mutable; write: {_struct_header(name)}")
    return struct


def _struct_header(name: str) -> str:
    return f"class {name}(msgspec.Struct, frozen=True)"


# -- decoding -------------------------------------------------------------------------------------


def _decode(struct: ArgsClass, value: Any) -> msgspec.Struct:
    if not isinstance(value, Mapping):
        kinds = {list: "a list", str: "a string", bool: "a boolean"}
        raise ArgsError(f"args: expected an object, got {kinds.get(type(value), 'a number')}")
    names = {field.encode_name for field in _struct_type(struct).fields}
    fields = {k: v for k, v in value.items() if k in names or k not in _TYPE_META}
    problems: list[str] = []
    encoded = _with_encode_names(fields, _struct_type(struct), "", problems)
    if problems:
        raise ArgsError(f"args: {'; '.join(problems)}")
    try:
        args = msgspec.convert(encoded, struct)
    except msgspec.ValidationError as problem:
        raise ArgsError(f"args: {_validation_text(str(problem))}") from None
    _validate(args)
    return args


def _with_encode_names(value: Any, kind: Any, path: str, problems: list[str]) -> Any:
    """Replace the field names of a configuration by those of the structs; note unknown ones."""
    if isinstance(kind, msgspec.inspect.UnionType):
        members = [m for m in kind.types if not isinstance(m, msgspec.inspect.NoneType)]
        return _with_encode_names(value, members[0], path, problems) if len(members) == 1 else value
    if isinstance(value, Mapping) and isinstance(kind, msgspec.inspect.StructType):
        return dict(_renamed_fields(value, kind, path, problems))
    if isinstance(value, Mapping) and isinstance(kind, msgspec.inspect.DictType):
        return {
            key: _with_encode_names(item, kind.value_type, f"{path}.{key}", problems)
            for key, item in value.items()
        }
    item_type = getattr(kind, "item_type", None)
    if isinstance(value, list) and item_type is not None:
        return [
            _with_encode_names(item, item_type, f"{path}[{index}]", problems)
            for index, item in enumerate(value)
        ]
    return value


def _renamed_fields(
    value: Mapping[str, Any], kind: msgspec.inspect.StructType, path: str, problems: list[str]
) -> Iterator[tuple[str, Any]]:
    fields = {_key(field): field for field in kind.fields}
    for key, item in value.items():
        item_path = f"{path}.{key}".lstrip(".")
        if key in fields:
            field = fields[key]
            yield field.encode_name, _with_encode_names(item, field.type, item_path, problems)
        elif kind.tag_field is not None and key == kind.tag_field:
            yield key, item
        else:
            problems.append(f"unknown field {item_path!r}{_suggestion(key, list(fields))}")


def _suggestion(key: str, names: list[str]) -> str:
    if not names:
        return ", there are no fields"
    folded = {name.replace("_", "").lower(): name for name in names}
    same = folded.get(key.replace("_", "").replace("-", "").lower())
    close = [same] if same else get_close_matches(key, names, n=1, cutoff=0.5)
    if close:
        return f", did you mean {close[0]!r}?"
    return f", the fields are {', '.join(names)}"


def _key(field: msgspec.inspect.Field) -> str:
    """Return the name of a field in a configuration: camelCase unless the struct renames it."""
    return field.encode_name if field.encode_name != field.name else _camel(field.name)


def _camel(name: str) -> str:
    first, *rest = name.strip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _validation_text(problem: str) -> str:
    """Return msgspec's text, prefixed by the path in the configuration."""
    match = _MSGSPEC_PATH.search(problem)
    text = problem[: match.start()] if match else problem
    path = ".".join(map(_camel, match.group(1).split("."))) if match else ""
    missing = _MSGSPEC_MISSING.match(text)
    if missing:
        return f"{path + '.' if path else ''}{_camel(missing.group(1))}: a value is required"
    return f"{path}: {text}" if path else text


def _validate(args: msgspec.Struct) -> None:
    """Call the optional `validate()` of an args class, which returns problems or raises one."""
    validate = getattr(args, "validate", None)
    if not callable(validate):
        return
    try:
        result = validate()
    except ValueError as problem:
        raise ArgsError(f"args: {problem}") from None
    problems = [result] if isinstance(result, str) else list(result or ())
    if problems:
        raise ArgsError(f"args: {'; '.join(map(str, problems))}")


def _struct_type(struct: ArgsClass) -> msgspec.inspect.StructType:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return info


def _type_name(hint: Any) -> str:
    if inspect.isclass(hint) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("NoneType", "None")


def _default(field: msgspec.inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
