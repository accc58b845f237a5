"""Typed arguments of plugins from outside: which struct they are, and a value read into it.

Owns how the struct of a class or factory is found, the strict reading of what stands under
`pluginConfig`, and the texts of what is wrong with it. Arguments of in-tree plugins are `config`'s,
with kube-scheduler's own texts.
Upstream: none; staging/src/k8s.io/kube-scheduler/framework DecodeInto is what Go plugins call.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import msgspec

from kubesched.config.types import RawArgs

ArgsClass: TypeAlias = type[msgspec.Struct]

_TYPE_META: Final = ("apiVersion", "kind")
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `([^`]*)`")
_HOW: Final = "class {name}(msgspec.Struct, frozen=True)"
_OPTIONAL_KINDS: Final = (typing.Union, types.UnionType)


class ArgsError(ValueError):
    """Arguments that a plugin does not take, or an args class that cannot be used."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a constructor's `args` is to be."""

    struct: ArgsClass | None = None
    is_raw: bool = False
    may_be_none: bool = False


@dataclass(frozen=True, slots=True)
class ArgsField:
    """One field of an args class, as a configuration spells it."""

    name: str
    type: str
    is_required: bool
    default: Any = None


def args_class(factory: Callable[..., Any]) -> ArgsClass | None:
    """Return the struct that a class or factory takes as `args`; None if it takes none.

    Raises:
        ArgsError: The annotation cannot be understood, or the struct can be changed.
    """
    return _wanted(factory).struct


def takes_raw_args(factory: Callable[..., Any]) -> bool:
    """Return whether a class or factory asks for its arguments as they stand."""
    return _wanted(factory).is_raw


def decoded_args(factory: Callable[..., Any], given: RawArgs | None) -> Any:
    """Return what a plugin is given as `args`, checked.

    Raises:
        ArgsError: In one line, what is wrong with them.
    """
    wanted = _wanted(factory)
    value = None if given is None else given.value
    if wanted.is_raw:
        return given
    if wanted.struct is None:
        if value is None:
            return None
        raise ArgsError(
            "args are given, but the plugin takes none: annotate `args` of its constructor with "
            f"a {_HOW.format(name=_args_name(factory))}"
        )
    if value is None and wanted.may_be_none:
        return None
    return _decoded(wanted.struct, {} if value is None else value)


def args_fields(struct: ArgsClass) -> list[ArgsField]:
    """Return the fields of an args class, as a configuration spells them."""
    return [
        ArgsField(
            _key(field),
            _type_text(hints.get(field.name, Any)),
            field.required,
            _default(field),
        )
        for hints in [typing.get_type_hints(struct)]
        for field in _struct_type(struct).fields
    ]


# -- which struct ---------------------------------------------------------------------------------


def _wanted(factory: Callable[..., Any]) -> _Wanted:
    function = _constructor(factory)
    if function is None:
        return _Wanted()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters(function).values())
    if "args" not in parameters(function) and not takes_any:
        return _Wanted()
    annotation = _annotation(function)
    choices = [one for one in _choices(annotation) if one is not type(None)]
    may_be_none = len(choices) < len(_choices(annotation))
    if choices == [RawArgs]:
        return _Wanted(is_raw=True)
    structs = [one for one in choices if _is_struct(one)]
    if len(structs) == 1 and len(choices) == 1:
        return _Wanted(_frozen(structs[0]), may_be_none=may_be_none)
    for name in [one.__name__ for one in choices if inspect.isclass(one) and is_dataclass(one)]:
        how = _HOW.format(name=name)
        raise ArgsError(f"{name} is a dataclass, which is not read strictly; write: {how}")
    named = _by_name(factory)
    return _Wanted(None if named is None else _frozen(named), may_be_none=may_be_none)


def parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or function; none if Python does not tell."""
    try:
        return signature(factory).parameters
    except ValueError:
        return {}


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature without looking its annotations up: some are for type checkers only."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415

        lazily = annotationlib.Format.FORWARDREF
        return inspect.signature(function, annotation_format=lazily)
    return inspect.signature(function)


def _constructor(factory: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function whose parameters count."""
    if not inspect.isclass(factory):
        return factory
    made_by = factory.__init__
    return made_by if inspect.isfunction(made_by) else None


def _annotation(function: Callable[..., Any]) -> Any:
    """Return what `args` is annotated with; only this one, others may be for type checkers only."""
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
            f"the annotation {annotation!r} of args cannot be looked up ({problem}): import the "
            "class where Python sees it, not only for type checkers"
        ) from None


def _choices(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in _OPTIONAL_KINDS:
        return typing.get_args(annotation)
    return (annotation,)


def _by_name(factory: Callable[..., Any]) -> ArgsClass | None:
    """Return `<Class>Args` of the class's module."""
    made = made_class(factory)
    if made is None:
        return None
    found = getattr(sys.modules.get(made.__module__), f"{made.__name__}Args", None)
    return found if _is_struct(found) else None


def made_class(factory: Callable[..., Any]) -> type | None:
    """Return the class of the plugins that a class or factory makes; None if it does not say."""
    if inspect.isclass(factory):
        return factory
    try:
        made = typing.get_type_hints(factory).get("return")
    except (NameError, TypeError):
        return None
    return made if inspect.isclass(made) and made not in (object, type(None)) else None


def _args_name(factory: Callable[..., Any]) -> str:
    made = made_class(factory)
    return f"{'Plugin' if made is None else made.__name__}Args"


def _is_struct(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, msgspec.Struct)


def _frozen(struct: ArgsClass) -> ArgsClass:
    if not struct.__struct_config__.frozen:
        raise ArgsError(
            f"{struct.__name__} can be changed after it was read; write: "
            + _HOW.format(name=struct.__name__)
        )
    return struct


# -- reading --------------------------------------------------------------------------------------


def _decoded(struct: ArgsClass, value: Any) -> msgspec.Struct:
    if not isinstance(value, Mapping):
        raise ArgsError(f"args: expected fields and values, got {_kind_of(value)}")
    names = {field.encode_name for field in _struct_type(struct).fields}
    fields = {k: v for k, v in value.items() if k in names or k not in _TYPE_META}
    problems: list[str] = []
    spelled = _spelled(fields, _struct_type(struct), "", problems)
    if problems:
        raise ArgsError(f"args: {'; '.join(problems)}")
    try:
        args = msgspec.convert(spelled, struct)
    except msgspec.ValidationError as problem:
        raise ArgsError(f"args: {_said(str(problem))}") from None
    _validate(args)
    return args


def _spelled(value: Any, kind: Any, path: str, problems: list[str]) -> Any:
    """Return a value with the names of its fields as the structs have them; note unknown ones."""
    if isinstance(kind, msgspec.inspect.UnionType):
        fitting = [one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)]
        return _spelled(value, fitting[0], path, problems) if len(fitting) == 1 else value
    if isinstance(value, Mapping) and isinstance(kind, msgspec.inspect.StructType):
        return dict(_renamed(value, kind, path, problems))
    if isinstance(value, Mapping) and isinstance(kind, msgspec.inspect.DictType):
        return {
            key: _spelled(one, kind.value_type, f"{path}.{key}", problems)
            for key, one in value.items()
        }
    item = getattr(kind, "item_type", None)
    if isinstance(value, list) and item is not None:
        return [
            _spelled(one, item, f"{path}[{place}]", problems) for place, one in enumerate(value)
        ]
    return value


def _renamed(
    value: Mapping[str, Any], kind: msgspec.inspect.StructType, path: str, problems: list[str]
) -> Iterator[tuple[str, Any]]:
    known = {_key(field): field for field in kind.fields}
    for key, one in value.items():
        where = f"{path}.{key}".lstrip(".")
        if key in known:
            field = known[key]
            yield field.encode_name, _spelled(one, field.type, where, problems)
        elif kind.tag_field is not None and key == kind.tag_field:
            yield key, one
        else:
            problems.append(f"unknown field {where!r}{_meant(key, list(known))}")


def _meant(key: str, known: list[str]) -> str:
    if not known:
        return ", there are no fields"
    folded = {name.replace("_", "").lower(): name for name in known}
    same = folded.get(key.replace("_", "").replace("-", "").lower())
    close = [same] if same else get_close_matches(key, known, n=1, cutoff=0.5)
    if close:
        return f", did you mean {close[0]!r}?"
    return f", the fields are {', '.join(known)}"


def _key(field: msgspec.inspect.Field) -> str:
    """Return how a configuration spells a field: as the struct renames it, else in camelCase."""
    if field.encode_name != field.name:
        return field.encode_name
    return _camel(field.name)


def _camel(name: str) -> str:
    first, *rest = name.strip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _said(problem: str) -> str:
    """Return msgspec's text with the field in front, as the configuration spells it."""
    place = _PLACE.search(problem)
    text = problem[: place.start()] if place else problem
    path = ".".join(map(_camel, place.group(1).split("."))) if place else ""
    missing = _MISSING.match(text)
    if missing:
        return f"{path + '.' if path else ''}{_camel(missing.group(1))}: a value is required"
    return f"{path}: {text}" if path else text


def _validate(args: msgspec.Struct) -> None:
    validate = getattr(args, "validate", None)
    if not callable(validate):
        return
    try:
        said = validate()
    except ValueError as problem:
        raise ArgsError(f"args: {problem}") from None
    texts = [said] if isinstance(said, str) else list(said or ())
    if texts:
        raise ArgsError(f"args: {'; '.join(map(str, texts))}")


def _struct_type(struct: ArgsClass) -> msgspec.inspect.StructType:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return info


def _kind_of(value: object) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")


# -- telling --------------------------------------------------------------------------------------


def _type_text(hint: Any) -> str:
    if inspect.isclass(hint) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("NoneType", "None")


def _default(field: msgspec.inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
