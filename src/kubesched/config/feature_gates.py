"""Feature gates of kube-scheduler: stage and default at a version, and settings.

Owns the reading of `--feature-gates`, `--emulated-version` and `--min-compatibility-version`, with
upstream's rules and texts. `gate_support` lists the gates that kubesched supports.
The list is `data/feature_gates.json.gz`, printed by kube-scheduler's own registry
(conformance/control-plane/v1.36/feature_gates).
Upstream: component-base featuregate/feature_gate.go, compatibility/{registry,version}.go
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

from kubesched.api.field_errors import aggregate_text
from kubesched.config.versions import KUBERNETES_VERSION, MinorVersion, Version, parse_version
from kubesched.golang.strconv import parse_bool

DEFAULT_COMPONENT: Final = "kube"
ALL_ALPHA: Final = "AllAlpha"
ALL_BETA: Final = "AllBeta"

_BINARY: Final = parse_version(KUBERNETES_VERSION)
_NEWEST: Final = _BINARY.minor_version
_BEFORE_NEWEST: Final = _NEWEST.minus_one()
# Parity: apiserver pkg/util/compatibility/version.go kubeEffectiveVersionFloors, v1.36
_FLOOR: Final = MinorVersion(_NEWEST.major, _NEWEST.minor - 3)


class GateError(ValueError):
    """Invalid settings; `str()` is upstream's text."""


@dataclass(frozen=True, slots=True)
class GateStage:
    """A gate from a version on. `stage` is ALPHA, BETA, DEPRECATED or "" for stable."""

    version: MinorVersion
    stage: str
    default: bool
    is_locked: bool = False
    min_compatibility_version: MinorVersion | None = None


_BEFORE_ALPHA: Final = GateStage(MinorVersion(0, 0), "PRE-ALPHA", False)


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature that has or had a gate."""

    name: str
    stages: tuple[GateStage, ...]
    depends_on: tuple[str, ...] = ()

    def at(self, versions: EffectiveVersions) -> GateStage:
        """Return the gate's state at a version."""
        # Parity: feature_gate.go featureSpecAtEmulationAndMinCompatVersion, v1.36
        for stage in reversed(self.stages):
            needed = stage.min_compatibility_version
            if stage.version > versions.emulation:
                continue
            if needed is None or versions.min_compatibility >= needed:
                return stage
        return _BEFORE_ALPHA


@dataclass(frozen=True, slots=True)
class EffectiveVersions:
    """The emulated version, and the oldest version to stay compatible with."""

    emulation: MinorVersion = _NEWEST
    min_compatibility: MinorVersion = _BEFORE_NEWEST

    def errors(self) -> list[str]:
        """Return the errors."""
        # Parity: compatibility/version.go Validate, v1.36. The newest has a patch number there.
        errors = []
        if not _FLOOR <= self.emulation <= _NEWEST:
            errors.append(
                f"emulation version {self.emulation} is not between [{_FLOOR}, {_NEWEST}.0]"
            )
        if not _FLOOR <= self.min_compatibility <= self.emulation:
            errors.append(
                f"minCompatibilityVersion version {self.min_compatibility} is not between "
                f"[{_FLOOR}, {self.emulation}]"
            )
        return errors


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Every gate at one version, with the settings."""

    versions: EffectiveVersions = EffectiveVersions()
    explicit: Mapping[str, bool] = field(default_factory=dict)
    """Settings by name."""
    _values: Mapping[str, bool] = field(default_factory=dict)
    """Settings by name or through AllAlpha and AllBeta."""

    def is_enabled(self, name: str) -> bool:
        """Return whether a feature is enabled; raise KeyError for an unknown one."""
        return self._values[name] if name in self._values else self.default_of(name)

    def default_of(self, name: str) -> bool:
        """Return whether a feature is enabled by default."""
        return known_gates()[name].at(self.versions).default

    def was_set(self, name: str) -> bool:
        """Return whether a feature was set by name or through AllAlpha and AllBeta."""
        return name in self._values

    def __iter__(self) -> Iterator[tuple[str, str, bool]]:
        """Iterate over name, stage and state of every gate at this version."""
        for name, gate in known_gates().items():
            stage = gate.at(self.versions).stage
            if stage != _BEFORE_ALPHA.stage:
                yield name, stage, self.is_enabled(name)

    def set_too_late(self) -> list[tuple[str, str, bool]]:
        """Return stable and deprecated gates that were set: name, "GA" or "deprecated", value."""
        words = {"": "GA", "DEPRECATED": "deprecated"}
        return [
            (name, words[stage], value)
            for name, value in self.explicit.items()
            if (stage := known_gates()[name].at(self.versions).stage) in words
        ]


DEFAULT_GATES: Final = FeatureGates()


@cache
def known_gates() -> Mapping[str, Gate]:
    """Return every gate of kube-scheduler by name, in name order."""
    packed = files("kubesched.config").joinpath("data/feature_gates.json.gz").read_bytes()
    return {
        name: Gate(name, tuple(map(_stage, gate["stages"])), tuple(gate.get("dependsOn", ())))
        for name, gate in sorted(json.loads(gzip.decompress(packed)).items())
    }


def _stage(values: Mapping[str, str | bool]) -> GateStage:
    needed = values.get("minCompatibilityVersion")
    return GateStage(
        version=parse_version(str(values["version"])).minor_version,
        stage=str(values["stage"]),
        default=bool(values["default"]),
        is_locked=bool(values.get("lock", False)),
        min_compatibility_version=(
            None if needed is None else parse_version(str(needed)).minor_version
        ),
    )


def resolve_gates(
    settings: Mapping[str, Sequence[str]],
    *,
    emulated_version: Sequence[str] = (),
    min_compatibility_version: Sequence[str] = (),
) -> FeatureGates:
    """Return the gates that the flags set.

    Args:
        settings: Texts `Name=bool` by component; the empty component is the default one.
        emulated_version: Texts `1.35` or `kube=1.35`.
        min_compatibility_version: Texts of the same form.

    Raises:
        GateError: With upstream's text.
    """
    # Parity: compatibility/registry.go Set, v1.36
    versions = EffectiveVersions()
    emulation = _component_version(emulated_version)
    if emulation is not None:
        oldest = max(emulation.minus_one(), _FLOOR)
        versions = EffectiveVersions(emulation, oldest)
    compatible = _component_version(min_compatibility_version)
    if compatible is not None:
        versions = EffectiveVersions(versions.emulation, compatible)
    values: dict[str, bool] = {}
    for component, texts in settings.items():
        if component == "" and DEFAULT_COMPONENT in settings:
            raise GateError(
                "set kube feature gates with default empty prefix or kube: prefix consistently, "
                "do not mix use"
            )
        _check_component(component or DEFAULT_COMPONENT)
        values.update(_parse_settings(",".join(texts)))
    return _resolve(values, versions)


def _component_version(texts: Sequence[str]) -> MinorVersion | None:
    """Return the version for the only component, if any."""
    parsed: dict[str, Version] = {}
    for text in texts:
        component, is_named, rest = text.partition("=")
        name, shown = (component.strip(), rest.strip()) if is_named else (DEFAULT_COMPONENT, text)
        try:
            version = parse_version(shown)
        except ValueError as problem:
            raise GateError(str(problem)) from None
        if version.patch:
            raise GateError(f"patch version not allowed, got: {name}={version}")
        if name in parsed:
            raise GateError(f"duplicate version flag, {name}={parsed[name]} and {name}={version}")
        parsed[name] = version
    for name in parsed:
        _check_component(name)
    return parsed[DEFAULT_COMPONENT].minor_version if parsed else None


def _check_component(name: str) -> None:
    if name != DEFAULT_COMPONENT:
        raise GateError(f"component not registered: {name}")


def _parse_settings(text: str) -> dict[str, bool]:
    # Parity: feature_gate.go SetWithLogger, v1.36
    settings: dict[str, bool] = {}
    for setting in text.split(","):
        if not setting:
            continue
        name, has_value, value = (part.strip() for part in setting.partition("="))
        if not has_value:
            raise GateError(f"missing bool value for {name}")
        try:
            settings[name] = parse_bool(value)
        except ValueError as problem:
            raise GateError(f"invalid value of {name}={value}, err: {problem}") from None
    return settings


def _resolve(settings: Mapping[str, bool], versions: EffectiveVersions) -> FeatureGates:
    # Parity: feature_gate.go unsafeSetFromMap, v1.36. Upstream goes through a map, so that the
    # order of several errors is not determined; here it is that of the command line.
    errors: list[str] = []
    for name, value in settings.items():
        gate = known_gates().get(name)
        if gate is None:
            errors.append(f"unrecognized feature gate: {name}")
            break
        problem = _problem(gate.at(versions), name, value, versions)
        if problem is not None:
            errors.append(problem)
    if errors:
        raise GateError(aggregate_text(errors))
    gates = FeatureGates(versions, dict(settings), {**_by_stage(settings, versions), **settings})
    errors = _unmet_dependencies(gates)
    if errors:
        raise GateError(aggregate_text(errors))
    return gates


def _problem(stage: GateStage, name: str, value: bool, versions: EffectiveVersions) -> str | None:
    shown = "true" if value else "false"
    if stage.is_locked and stage.default != value:
        locked = "true" if stage.default else "false"
        return f"cannot set feature gate {name} to {shown}, feature is locked to {locked}"
    if stage is _BEFORE_ALPHA:
        return (
            f"cannot set feature gate {name} to {shown}, feature is PreAlpha at emulated version "
            f"{versions.emulation}, min compatibility version {versions.min_compatibility}"
        )
    return None


def _by_stage(settings: Mapping[str, bool], versions: EffectiveVersions) -> dict[str, bool]:
    """Return the gates that AllAlpha and AllBeta set."""
    by_stage = {
        stage: settings[name]
        for name, stage in ((ALL_ALPHA, "ALPHA"), (ALL_BETA, "BETA"))
        if name in settings
    }
    return {
        name: by_stage[stage]
        for name, gate in known_gates().items()
        if name not in (ALL_ALPHA, ALL_BETA) and (stage := gate.at(versions).stage) in by_stage
    }


def _unmet_dependencies(gates: FeatureGates) -> list[str]:
    errors = []
    for name, gate in known_gates().items():
        if not gate.depends_on or not gates.is_enabled(name):
            continue
        disabled = [needed for needed in gate.depends_on if not gates.is_enabled(needed)]
        if disabled:
            errors.append(
                f"{name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(disabled)}]"
            )
    return errors
