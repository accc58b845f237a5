"""Recorded cases: one cluster, one configuration, one pod; and our decision for it.

Owns the reading of a case. The decision is the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.app.build import Built, build
from kubesched.app.cluster import load_objects
from kubesched.cache.cache import Cache
from kubesched.config.errors import ConfigError
from kubesched.config.load import default_config, load_config_object
from kubesched.engine.decide import Decision, decide
from kubesched.framework.registry import Registry
from kubesched.objects.check import check_object
from kubesched.objects.decode import KubeObject, decode_as, decode_object
from kubesched.objects.errors import MalformedObject
from kubesched.objects.pod import Pod


class CaseError(ValueError):
    """A case that cannot be decided: what is wrong, and where."""


class CaseDecider:
    """Decides cases one after the other; configurations seen before are not built again."""

    def __init__(self, out_of_tree: Registry | None = None) -> None:
        self._out_of_tree = out_of_tree
        self._built: dict[bytes, Built] = {}

    def decide(self, case: Mapping[str, Any]) -> Decision:
        """Return our decision; raise CaseError if the case cannot be read."""
        built = self._build(case.get("config"))
        cache = Cache(keep_whole_pods=built.reads_bound_pods)
        try:
            load_objects(cache, self._objects(case), built.profiles)
            pod = cache.pod_info(self._pod(case))
        except MalformedObject as problem:
            raise CaseError(str(problem)) from None
        profile = built.profiles.get(pod.scheduler_name)
        if profile is None:
            raise CaseError(
                f"pod {pod.key}: no profile has the scheduler name {pod.scheduler_name!r}; "
                f"the configuration has {', '.join(map(repr, built.profiles))}"
            )
        view = cache.snapshot()
        built.handles[profile.name].view = view
        return decide(profile, view, pod)

    def _build(self, config: object) -> Built:
        if config is not None and not isinstance(config, Mapping):
            raise CaseError(f"config: expected an object or null, got {type(config).__name__}")
        try:
            key = msgspec.json.encode(config)
            built = self._built.get(key)
            if built is None:
                loaded = default_config() if config is None else load_config_object(config)
                built = self._built[key] = build(loaded, out_of_tree=self._out_of_tree)
        except ConfigError as problem:
            raise CaseError(f"config: {problem}") from None
        return built

    def _objects(self, case: Mapping[str, Any]) -> list[KubeObject]:
        objects = case.get("objects")
        if not isinstance(objects, list):
            raise CaseError(f"objects: expected a list, got {type(objects).__name__}")
        found = []
        for number, document in enumerate(objects):
            if not isinstance(document, Mapping):
                raise CaseError(f"objects[{number}]: expected an object, got {document!r:.80}")
            found.append(decode_object(document))
            check_object(found[-1], is_stored=True)
        return found

    def _pod(self, case: Mapping[str, Any]) -> Pod:
        document = case.get("pod")
        if not isinstance(document, Mapping):
            raise CaseError(f"pod: expected an object, got {type(document).__name__}")
        pod = decode_as(Pod, document)
        check_object(pod, is_stored=True)
        return pod
