"""Sequences from seeds.

Owns the list of families. A family and a seed always give the same sequence.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from conformance.side_by_side.generate.basic import basic
from conformance.side_by_side.generate.constraints import affinity, spread, taints
from conformance.side_by_side.generate.flows import fixed, gates
from conformance.side_by_side.generate.preemption import preemption
from conformance.side_by_side.generate.vocabulary import Draft, Family
from conformance.side_by_side.generate.volumes import volumes
from conformance.side_by_side.steps import Sequence

FAMILIES: Mapping[str, Family] = {
    "basic": basic,
    "taints": taints,
    "affinity": affinity,
    "spread": spread,
    "volumes": volumes,
    "preemption": preemption,
    "gates": gates,
    "fixed": fixed,
}


def sequence_of(family: str, seed: int) -> Sequence:
    """Return the sequence of a family and a seed."""
    draft = Draft(random.Random(f"{family}-{seed}"))
    FAMILIES[family](draft)
    return Sequence(family, seed, tuple(draft.steps))
