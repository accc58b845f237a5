"""Hints for users whose configuration is rejected.

Hints are printed beside an error and are never part of it: the error is upstream's, word for word.
Upstream: none
"""

import difflib
import re
from collections.abc import Iterable, Iterator

from kubesched.config.convert import (
    FIT_STRATEGIES,
    OLD_LOCKS,
    OLD_VERSIONS,
    REMOVED_FIELDS,
    REMOVED_PLUGINS,
)
from kubesched.config.errors import ConfigError
from kubesched.config.load import read_document
from kubesched.config.schema import API_VERSION, ARGS, CONFIGURATION, KIND, Slice, Struct, Type

_UNKNOWN = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')
_ARGS_OF = re.compile(
    r'args for plugin (\w+): strict decoding error: ((?:unknown field "[^"]*"(?:, )?)+)'
)
_MISSING_PLUGIN = re.compile(r'Plugin "([^"]*)" does not exist')
_REJECTED_PLUGIN = re.compile(r'Invalid value: "([^"]*)": was invalid in version')
_LOCK = re.compile(r'resourceLock: Invalid value: "([^"]*)"')
_TWO_SORTS = re.compile(r"only one queue sort plugin required .* but got [^01]")
_NO_CLUSTER = "invalid configuration: no configuration has been provided"
_NO_UNIT = re.compile(r'time: missing unit in duration "([^"]*)"')


def advice_for(text: str, error: ConfigError | None, plugins: Iterable[str]) -> list[str]:
    """Return advice about a configuration file and the error it caused, if any.

    Args:
        text: The configuration file.
        error: What loading or validating it raised.
        plugins: The names of the in-tree plugins.
    """
    if error is None:
        return []
    advice = [
        *_cluster(text, str(error)),
        *_version(text, str(error)),
        *_fields(str(error)),
        *_plugins(str(error), plugins),
        *_values(str(error)),
        *_syntax(str(error)),
    ]
    return list(dict.fromkeys(advice))


def _cluster(text: str, error: str) -> Iterator[str]:
    if text and error.startswith(_NO_CLUSTER):
        yield (
            "--kubeconfig is ignored with --config: set clientConnection.kubeconfig in the file, "
            "or KUBECONFIG"
        )


def _version(text: str, error: str) -> Iterator[str]:
    if "is registered for version" in error or "is missing in" in error:
        try:
            document = read_document(text)
        except ConfigError:
            return
        version = document.get("apiVersion") if isinstance(document, dict) else None
        if version in OLD_VERSIONS:
            yield f"{version} is no longer served: rewrite the file with `kubesched config convert`"
        else:
            yield f"start the file with apiVersion: {API_VERSION} and kind: {KIND}"


def _fields(error: str) -> Iterator[str]:
    within_args: list[str] = []
    for plugin, fields in _ARGS_OF.findall(error):
        shape = ARGS.get(f"{plugin}Args")
        for path in _UNKNOWN.findall(fields):
            within_args.append(path)
            if shape is not None:
                yield from _field(path, shape)
    for path in _UNKNOWN.findall(error):
        if path not in within_args:
            yield from _field(path, CONFIGURATION)


def _field(path: str, root: Struct) -> Iterator[str]:
    """Yield the field that was probably meant, or the replacement of one that v1 removed."""
    parent, _, name = path.rpartition(".")
    shape = _shape_at(parent, root)
    names = list(shape.fields) if shape is not None else []
    folded = {field.lower(): field for field in names}
    if name.lower() in folded:
        yield f"{path}: field names are case sensitive, did you mean {folded[name.lower()]}?"
    elif name in REMOVED_FIELDS:
        yield f"{path}: v1 has no such field, {REMOVED_FIELDS[name]}"
    else:
        close = difflib.get_close_matches(name, names, n=1)
        if close:
            yield f"{path}: did you mean {close[0]}?"


def _shape_at(path: str, root: Struct) -> Struct | None:
    """Return the struct that a path such as profiles[0].plugins leads to."""
    kind: Type = root
    for part in filter(None, re.sub(r"\[\d+\]", "", path).split(".")):
        if not isinstance(kind, Struct) or part not in kind.fields:
            return None
        kind = kind.fields[part].type
        if isinstance(kind, Slice):
            kind = kind.elem
    return kind if isinstance(kind, Struct) else None


def _plugins(error: str, in_tree: Iterable[str]) -> Iterator[str]:
    for name in (*_MISSING_PLUGIN.findall(error), *_REJECTED_PLUGIN.findall(error)):
        if name in REMOVED_PLUGINS:
            yield f"{name} was removed: {REMOVED_PLUGINS[name]}"
        elif name in FIT_STRATEGIES:
            yield f"{name} was removed: set the scoringStrategy of NodeResourcesFitArgs instead"
        else:
            close = difflib.get_close_matches(name, sorted(in_tree), n=1)
            if close:
                yield f"there is no plugin {name}, did you mean {close[0]}?"
            else:
                yield f"if {name} is an out-of-tree plugin, load it with --plugin"


def _values(error: str) -> Iterator[str]:
    for lock in _LOCK.findall(error):
        if lock in OLD_LOCKS:
            yield f"resourceLock {lock} was removed: use leases, or leave the field out"
    for value in _NO_UNIT.findall(error):
        yield f'a duration needs a unit, such as "{value}s"'
    if ".plugins.queueSort: " in error and "must be the same for all profiles" in error:
        yield "all profiles share one queue: configure the same queueSort plugin in each"
    if _TWO_SORTS.search(error):
        yield "PrioritySort is on by default: disable it under queueSort of every profile"
    if "cannot unmarshal number" in error and error.endswith("of type string"):
        yield "write a duration with a unit, such as 15s, and quote other strings"


def _syntax(error: str) -> Iterator[str]:
    if "cannot start any token" in error:
        yield "YAML is indented with spaces: look for a tab, or quote the text"
    if "invalid map key: map[" in error:
        yield "is this a template? Render it first"
    if "already set in map" in error:
        yield "write each key once; a key from a merge (<<) cannot be overridden"
