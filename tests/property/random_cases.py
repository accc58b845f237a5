"""Cases of the fuzzer by number, loaded into a cache: realistic objects of every kind.

Owns the loading of a generated case, and runs of parts of its attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from conformance.fuzz.generate.cases import case
from conformance.fuzz.generate.vocabulary import FAMILIES
from kubesched.api.decode import decode_as, decode_object
from kubesched.api.pod import Pod
from kubesched.cache.cache import Cache, load_objects
from kubesched.config.load import default_config, load_config_object
from kubesched.explanation.decision import Decision, decide
from kubesched.framework.runtime.profile import Profile
from kubesched.kit.rng import RandomStream
from kubesched.profile.build import Built, build
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView

Wire = dict[str, Any]
SEED = 20240501
NUMBERS = st.integers(0, 100_000)


def numbers_of(*families: str) -> st.SearchStrategy[int]:
    """Return numbers of cases of some families; families take turns."""
    places = [FAMILIES.index(family) for family in families]
    size = len(FAMILIES)
    return st.builds(
        lambda n, place: n * size + place, st.integers(0, 8000), st.sampled_from(places)
    )


def case_of(number: int) -> Wire:
    """Return a generated case."""
    return case(SEED, number)


@lru_cache(maxsize=64)
def _built(config: str) -> Built:
    document = json.loads(config)
    return build(default_config() if document is None else load_config_object(document))


@dataclass(frozen=True)
class Loaded:
    """A case's cluster, ready for an attempt."""

    built: Built
    profile: Profile
    cache: Cache
    view: ClusterView
    pod: PodInfo

    def decide(self) -> Decision:
        """Return the decision, with the random stream at its start."""
        handle = self.built.handles[self.profile.name]
        handle.rng = RandomStream(0, "test")
        handle.view = self.view
        return decide(self.profile, self.view, self.pod)


def load(
    case: Mapping[str, Any], *, objects: Sequence[Wire] | None = None, built: Built | None = None
) -> Loaded:
    """Load a case.

    Args:
        case: the case.
        objects: its objects, in another order.
        built: the profiles, instead of those of its configuration.
    """
    built = built or _built(json.dumps(case["config"]))
    cache = Cache()
    wires = case["objects"] if objects is None else objects
    load_objects(cache, map(decode_object, wires), built.profiles)
    pod = cache.pod_info(decode_as(Pod, case["pod"]))
    name = pod.scheduler_name if pod.scheduler_name in built.profiles else "default-scheduler"
    view = cache.snapshot()
    built.handles[name].view = view
    return Loaded(built, built.profiles[name], cache, view, pod)
