"""Older configuration files rewritten for v1.

Owns the changes by which a v1beta1, v1beta2 or v1beta3 file keeps its meaning in v1, the list of
these changes, and advice for each removed name. Never validates the result: loading it does.
Upstream: pkg/scheduler/apis/config/{v1beta2,v1beta3} as they were, and the v1 defaults
"""

from typing import Any

from kubesched.config.errors import ConfigError
from kubesched.config.load import read_document
from kubesched.config.schema import API_VERSION, GROUP, KIND, POINTS
from kubesched.golang.yaml_output import dump_yaml

OLD_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1beta1", "v1beta2", "v1beta3"))

_LIMITS = "NodeVolumeLimits counts the volumes of every CSI driver"
REMOVED_PLUGINS = {
    "SelectorSpread": "PodTopologySpread spreads the pods of a workload by default",
    "NodePreferAvoidPods": "taint nodes with the effect PreferNoSchedule instead",
    "NodeLabel": "give NodeAffinity an addedAffinity instead",
    "ServiceAffinity": "use inter-pod affinity instead",
    "EBSLimits": _LIMITS,
    "GCEPDLimits": _LIMITS,
    "CinderLimits": _LIMITS,
    "AzureDiskLimits": _LIMITS,
}
# Scoring plugins that became strategies of NodeResourcesFit.
FIT_STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_SECURE_PORT = "health and metrics are served on the secure port"
REMOVED_FIELDS = {
    "healthzBindAddress": _SECURE_PORT,
    "metricsBindAddress": _SECURE_PORT,
    "algorithmSource": "describe the plugins in profiles",
    "hardPodAffinitySymmetricWeight": "set hardPodAffinityWeight of InterPodAffinityArgs",
    "bindTimeoutSeconds": "set bindTimeoutSeconds of VolumeBindingArgs",
    "disablePreemption": "disable the postFilter plugin DefaultPreemption",
    "schedulerName": "a scheduler name belongs to a profile",
    "unreserve": "reserve plugins undo their own reservations",
}
OLD_LOCKS = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")
_SECURE_FIELDS = ("healthzBindAddress", "metricsBindAddress")
# Default weights before v1beta3; v1 has 2, 2 and 3.
_OLD_WEIGHTS = {"InterPodAffinity": 1, "NodeAffinity": 1, "TaintToleration": 1}
_FIT = "NodeResourcesFit"


def convert_old(text: str) -> tuple[str, list[str]]:
    """Return an old file's text for v1 and the list of changes, one line each.

    Raises:
        ConfigError: At stage "decode": not a document of a known version.
    """
    document = read_document(text)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ConfigError("decode", f"not a {KIND}: there is nothing to convert")
    version = document.get("apiVersion")
    if version == API_VERSION:
        return text, []
    if version not in OLD_VERSIONS:
        versions = ", ".join(old.rpartition("/")[2] for old in OLD_VERSIONS)
        raise ConfigError("decode", f'cannot convert apiVersion "{version}": supported: {versions}')
    conversion = _Conversion(str(version))
    return dump_yaml(conversion.root(document), sort_keys=False), conversion.changes


class _Conversion:
    """One conversion: the old version, and the changes so far."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.changes = [f"apiVersion: {version} became {API_VERSION}"]

    def root(self, document: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
        for name, value in document.items():
            if name in _SECURE_FIELDS:
                self.changes.append(f"{name}: dropped, {REMOVED_FIELDS[name]}")
            elif name not in out:
                out[name] = value
        self.lock(out.get("leaderElection"))
        profiles = out.get("profiles")
        if not profiles and self.old_weights():
            profiles = [{}]
        if isinstance(profiles, list):
            out["profiles"] = [
                self.profile(profile, f"profiles[{index}]")
                if isinstance(profile, dict)
                else profile
                for index, profile in enumerate(profiles)
            ]
        return out

    def old_weights(self) -> bool:
        return not self.version.endswith("/v1beta3")

    def lock(self, election: Any) -> None:
        if isinstance(election, dict) and election.get("resourceLock") in OLD_LOCKS:
            old = election["resourceLock"]
            election["resourceLock"] = "leases"
            self.changes.append(f"leaderElection.resourceLock: {old} became leases")

    def profile(self, profile: dict[str, Any], path: str) -> dict[str, Any]:
        out = dict(profile)
        plugins = out.get("plugins")
        plugins = dict(plugins) if isinstance(plugins, dict) else {}
        strategy = self.plugin_sets(plugins, f"{path}.plugins")
        entries = out.get("pluginConfig")
        entries = [entry for entry in entries or () if isinstance(entry, dict)]
        entries = self.plugin_config(entries, strategy, f"{path}.pluginConfig")
        if self.old_weights():
            self.keep_weights(plugins, f"{path}.plugins")
        for name, value in (("plugins", plugins), ("pluginConfig", entries)):
            if value:
                out[name] = value
            else:
                out.pop(name, None)
        return out

    def plugin_sets(self, plugins: dict[str, Any], path: str) -> str | None:
        """Drop removed plugins in place; return the strategy that replaces a scoring plugin."""
        strategy: str | None = None
        for point in list(plugins):
            if point not in POINTS:
                plugins.pop(point)
                advice = REMOVED_FIELDS.get(point, "v1 has no such extension point")
                self.changes.append(f"{path}.{point}: dropped, {advice}")
                continue
            for side in ("enabled", "disabled"):
                kept, replacement = self.entries(
                    (plugins[point] or {}).get(side), f"{path}.{point}.{side}"
                )
                if side == "enabled":
                    strategy = replacement or strategy
                if kept is not None:
                    plugins[point] = {**plugins[point], side: kept}
        return strategy

    def entries(self, entries: Any, path: str) -> tuple[list[Any] | None, str | None]:
        """Return a list of plugins without removed ones, and the strategy that replaces one."""
        if not isinstance(entries, list):
            return None, None
        kept: list[Any] = []
        strategy: str | None = None
        for entry in entries:
            name = entry.get("name") if isinstance(entry, dict) else None
            if name in REMOVED_PLUGINS:
                self.changes.append(f"{path}: {name} dropped, {REMOVED_PLUGINS[name]}")
            elif name in FIT_STRATEGIES:
                strategy = FIT_STRATEGIES[name]
                if path.endswith("enabled"):
                    if all(other.get("name") != _FIT for other in kept):
                        kept.append({**entry, "name": _FIT})
                    change = f"became {_FIT} with the strategy {strategy}"
                else:
                    change = f"dropped, it is a strategy of {_FIT} now"
                self.changes.append(f"{path}: {name} {change}")
            else:
                kept.append(entry)
        return kept, strategy

    def plugin_config(
        self, entries: list[dict[str, Any]], strategy: str | None, path: str
    ) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = []
        strategy_fields: dict[str, Any] = {"type": strategy} if strategy else {}
        for index, entry in enumerate(entries):
            name, args = entry.get("name"), entry.get("args")
            args = dict(args) if isinstance(args, dict) else args
            where = f"{path}[{index}]"
            if isinstance(args, dict) and args.get("apiVersion") in OLD_VERSIONS:
                self.changes.append(f"{where}.args.apiVersion: became {API_VERSION}")
                args["apiVersion"] = API_VERSION
            if name in REMOVED_PLUGINS:
                self.changes.append(f"{where}: {name} dropped, {REMOVED_PLUGINS[name]}")
            elif name in FIT_STRATEGIES:
                strategy_fields = {"type": FIT_STRATEGIES[name], **_strategy_fields(args)}
                self.changes.append(f"{where}: {name} became the scoringStrategy of {_FIT}")
            else:
                kept.append({**entry, "args": args} if "args" in entry else entry)
        return _with_strategy(kept, strategy_fields) if strategy_fields else kept

    def keep_weights(self, plugins: dict[str, Any], path: str) -> None:
        """Pin the weights that were defaults before v1beta3, so that scores stay the same."""
        score, multi = plugins.get("score") or {}, plugins.get("multiPoint") or {}
        settled = {
            entry.get("name")
            for entry in (
                *(score.get("enabled") or ()),
                *(score.get("disabled") or ()),
                *(multi.get("enabled") or ()),
                *(multi.get("disabled") or ()),
            )
            if isinstance(entry, dict)
        }
        if "*" in settled:
            return
        pinned: list[dict[str, Any]] = [
            {"name": name, "weight": weight}
            for name, weight in _OLD_WEIGHTS.items()
            if name not in settled
        ]
        if pinned:
            plugins["multiPoint"] = {**multi, "enabled": [*(multi.get("enabled") or ()), *pinned]}
            names = ", ".join(entry["name"] for entry in pinned)
            self.changes.append(
                f"{path}.multiPoint.enabled: weight 1 pinned for {names}, v1 weighs them more"
            )


def _strategy_fields(args: Any) -> dict[str, Any]:
    """Return the arguments of a replaced scoring plugin as fields of a strategy."""
    if not isinstance(args, dict):
        return {}
    out: dict[str, Any] = {}
    if args.get("resources"):
        out["resources"] = args["resources"]
    if args.get("shape"):
        out["requestedToCapacityRatio"] = {"shape": args["shape"]}
    return out


def _with_strategy(entries: list[dict[str, Any]], strategy: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a strategy to the arguments of Fit, unless the file sets one."""
    for index, entry in enumerate(entries):
        if entry.get("name") == _FIT:
            args = dict(entry.get("args") or {})
            args.setdefault("scoringStrategy", strategy)
            return [*entries[:index], {**entry, "args": args}, *entries[index + 1 :]]
    return [*entries, {"name": _FIT, "args": {"scoringStrategy": strategy}}]
