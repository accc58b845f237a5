"""Delta debugging: the smallest case that still shows a difference.

Owns the search. Never decides a case: the caller evaluates batches of cases.
Upstream: none.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Obj = dict[str, Any]
Path = tuple[str | int, ...]
StillDiffers = Callable[[list[Obj]], list[bool]]
T = TypeVar("T")

# Fields that identify an object.
KEPT_IN_OBJECT = (
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
)
KEPT_IN_POD = (("spec",), ("spec", "containers"), ("spec", "schedulerName"))
DEPTH_MAX = 12


def shrink(case: Obj, still_differs: StillDiffers, *, rounds: int = 400) -> Obj:
    """Return a smaller case that still differs: first fewer objects, then fewer fields.

    Args:
        case: a case that differs.
        still_differs: returns for each case of a batch whether it has the same difference.
        rounds: the maximum number of batches.
    """
    budget = _Budget(still_differs, rounds)
    if case.get("config") is not None:
        bare = {**case, "config": None}
        if budget.evaluate([bare])[0]:
            case = bare
    case = _shrink_objects(case, budget)
    for depth in range(1, DEPTH_MAX):
        paths = [path for path in removable(case) if len(path) - _base(path) == depth]
        if paths:
            case = _shrink_fields(case, paths, budget)
    return _shrink_objects(case, budget)


class _Budget:
    """Limits the number of batches, so that shrinking ends."""

    def __init__(self, still_differs: StillDiffers, rounds: int) -> None:
        self._still_differs = still_differs
        self._rounds = rounds

    def evaluate(self, cases: list[Obj]) -> list[bool]:
        if self._rounds <= 0 or not cases:
            return [False] * len(cases)
        self._rounds -= 1
        return self._still_differs(cases)


def minimize(
    items: Sequence[T], build: Callable[[list[T]], Obj], evaluate: Callable[[list[Obj]], list[bool]]
) -> list[T]:
    """Return a small sublist of items whose case still differs (ddmin over complements)."""
    kept = list(items)
    chunk = max(1, len(kept) // 2)
    while kept:
        chunks = [kept[start : start + chunk] for start in range(0, len(kept), chunk)]
        rests = [
            [item for other in chunks[:index] + chunks[index + 1 :] for item in other]
            for index in range(len(chunks))
        ]
        answers = evaluate([build(rest) for rest in rests])
        droppable = [index for index, differs in enumerate(answers) if differs]
        if droppable:
            kept = _drop_together(chunks, droppable, build, evaluate)
            chunk = max(1, min(chunk, len(kept) // 2))
        elif chunk == 1:
            break
        else:
            chunk //= 2
    return kept


def _drop_together(
    chunks: list[list[T]],
    droppable: list[int],
    build: Callable[[list[T]], Obj],
    evaluate: Callable[[list[Obj]], list[bool]],
) -> list[T]:
    # Chunks can often be dropped together: try all, half of them, ..., finally only the first.
    count = len(droppable)
    while count > 1:
        gone = set(droppable[:count])
        rest = [item for index, c in enumerate(chunks) if index not in gone for item in c]
        if evaluate([build(rest)])[0]:
            return rest
        count //= 2
    first = droppable[0]
    return [item for index, c in enumerate(chunks) if index != first for item in c]


def _shrink_objects(case: Obj, budget: _Budget) -> Obj:
    def build(objects: list[Obj]) -> Obj:
        return {**case, "objects": objects}

    return build(minimize(case["objects"], build, budget.evaluate))


def _shrink_fields(case: Obj, paths: list[Path], budget: _Budget) -> Obj:
    def build(kept: list[Path]) -> Obj:
        keeping = set(kept)
        return without(case, [path for path in paths if path not in keeping])

    return build(minimize(paths, build, budget.evaluate))


def removable(case: Obj) -> list[Path]:
    """Return the paths of all removable fields and elements of a case."""
    found: list[Path] = []
    for index, one in enumerate(case["objects"]):
        found.extend(("objects", index, *path) for path in _paths(one, KEPT_IN_OBJECT))
    found.extend(("pod", *path) for path in _paths(case["pod"], KEPT_IN_OBJECT + KEPT_IN_POD))
    if case.get("config"):
        found.extend(("config", *path) for path in _paths(case["config"], KEPT_IN_OBJECT))
    return found


def _base(path: Path) -> int:
    return 2 if path[0] == "objects" else 1


def _paths(value: Any, kept: Sequence[Path]) -> Iterator[Path]:
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, here = pending.pop()
        children: list[tuple[str | int, Any]] = []
        if isinstance(here, dict):
            children = list(here.items())
        elif isinstance(here, list):
            children = list(enumerate(here))
        for key, child in children:
            place = (*path, key)
            if place not in kept:
                yield place
            pending.append((place, child))


def without(case: Obj, paths: list[Path]) -> Obj:
    """Return a copy of the case without these paths."""
    made = copy.deepcopy(case)
    # Later elements first, so that an earlier index stays valid.
    for path in sorted(paths, key=_order, reverse=True):
        here: Any = made
        for key in path[:-1]:
            here = here[key]
        del here[path[-1]]
    return made


def _order(path: Path) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, key, "") if isinstance(key, int) else (1, 0, key) for key in path)
