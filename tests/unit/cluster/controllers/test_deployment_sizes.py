"""The sizes of a Deployment's ReplicaSets.

The numbers are those of pkg/controller/deployment/{sync,rolling}_test.go and
util/deployment_util_test.go, v1.36.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cluster.controllers.deployment.sizes import (
    active_or_latest,
    is_saturated,
    max_scale_down,
    max_surge,
    max_unavailable,
    new_replicas,
    proportional_sizes,
    resolve_fenceposts,
    scaled_value,
    surplus_old_sizes,
    unhealthy_old_sizes,
)
from kubesched.cluster.controllers.replica_set.status import replicas_of
from tests.unit.cluster.controllers.deployment_world import (
    Document,
    a_deployment,
    a_replica_set,
    noted,
)


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "expected"),
    [
        pytest.param(0, "0%", 1, (0, 1), id="both zero: one may be missing"),
        pytest.param("39%", 0, 10, (4, 0), id="a surge is rounded up"),
        pytest.param(0, "39%", 10, (0, 3), id="what may be missing is rounded down"),
        pytest.param("0%", "1%", 2, (0, 1), id="rounded down to zero: one may be missing"),
        pytest.param("1%", "25%", 1, (1, 0), id="a surge of any percentage is one"),
        pytest.param("25%", "25%", 10, (3, 2), id="the default for ten"),
        pytest.param("25%", "25%", 1, (1, 0), id="the default for one"),
    ],
)
def test_both_fenceposts_are_never_zero(
    surge: int | str, unavailable: int | str, desired: int, expected: tuple[int, int]
) -> None:
    assert (
        resolve_fenceposts(a_deployment(desired, surge=surge, unavailable=unavailable)) == expected
    )


def test_an_invalid_percentage_is_rejected() -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        scaled_value("5", 10, round_up=True)


@pytest.mark.parametrize(
    ("replicas", "unavailable", "strategy", "expected"),
    [
        (10, 5, "RollingUpdate", 5),
        (5, 10, "RollingUpdate", 5),
        (0, 10, "RollingUpdate", 0),
        (5, 0, "Recreate", 0),
        (10, "50%", "RollingUpdate", 5),
        (10, "150%", "RollingUpdate", 10),
    ],
)
def test_max_unavailable_is_capped_by_the_replicas(
    replicas: int, unavailable: int | str, strategy: str, expected: int
) -> None:
    deployment = a_deployment(replicas, surge=1, unavailable=unavailable, strategy=strategy)
    assert max_unavailable(deployment) == expected


def test_recreate_has_no_surge() -> None:
    assert max_surge(a_deployment(5, strategy="Recreate")) == 0


@pytest.mark.parametrize(
    ("desired", "surge", "old", "new", "expected"),
    [
        pytest.param(10, 0, 10, 0, 0, id="no surge: wait for old pods to go"),
        pytest.param(10, 2, 10, 0, 2, id="as many as the surge"),
        pytest.param(10, 2, 5, 0, 7, id="the surge and the missing pods"),
        pytest.param(10, 2, 10, 2, 2, id="the surge is used up"),
        pytest.param(10, "20%", 3, 5, 9, id="a percentage"),
        pytest.param(10, 5, 0, 8, 10, id="never above spec.replicas"),
    ],
)
def test_the_new_replica_set_grows_into_the_surge(
    desired: int, surge: int | str, old: int, new: int, expected: int
) -> None:
    newer, older = a_replica_set("new", new), a_replica_set("old", old, age=1)
    deployment = a_deployment(desired, surge=surge)
    assert new_replicas(deployment, [older, newer], newer) == expected


def test_recreate_starts_with_all_replicas() -> None:
    new = a_replica_set("new", 0)
    assert new_replicas(a_deployment(5, strategy="Recreate"), [new], new) == 5


SCALINGS = [
    pytest.param((5, 10), [2, 3], [4, 6], id="5 to 10"),
    pytest.param((5, 3), [2, 3], [1, 2], id="5 to 3"),
    pytest.param((9, 4), [8, 1], [4, 0], id="9 to 4"),
    pytest.param((7, 10), [2, 3, 2], [3, 4, 3], id="7 to 10 with three"),
    pytest.param((13, 8), [2, 8, 3], [1, 5, 2], id="13 to 8 with three"),
    pytest.param((3, 4), [1, 1, 1], [2, 1, 1], id="the remainder goes to the newest"),
    pytest.param((3, 2), [1, 1, 1], [1, 1, 0], id="the remainder is taken from the oldest"),
    pytest.param((4, 5), [2, 2], [3, 2], id="4 to 5: the newer first"),
    pytest.param((6, 0), [3, 2, 1], [0, 0, 0], id="to nothing"),
    pytest.param((10, 14), [7, 3], [10, 4], id="10 to 14"),
]


@pytest.mark.parametrize(("scaling", "sizes", "expected"), SCALINGS)
def test_a_new_size_is_distributed_in_proportion(
    scaling: tuple[int, int], sizes: list[int], expected: list[int]
) -> None:
    before, after = scaling
    sets = [
        noted(a_replica_set(f"web-{len(sizes) - number}", size, age=number), before)
        for number, size in enumerate(sizes)
    ]
    spread = {
        resized["metadata"]["name"]: size for resized, size in proportional_sizes_of(after, sets)
    }
    assert [spread[replica_set["metadata"]["name"]] for replica_set in sets] == expected


def proportional_sizes_of(desired: int, sets: list[Document]) -> list[tuple[Document, int]]:
    return proportional_sizes(a_deployment(desired), sets)


@pytest.mark.parametrize(
    ("before", "after", "sizes", "expected"),
    [
        pytest.param((10, 2), (20, 2), [6, 6], [11, 11], id="with a surge"),
        pytest.param((10, 3), (50, 6), [5, 8], [22, 34], id="size and surge change together"),
    ],
)
def test_the_surge_is_distributed_as_well(
    before: tuple[int, int], after: tuple[int, int], sizes: list[int], expected: list[int]
) -> None:
    sets = [
        noted(a_replica_set(f"web-{2 - number}", size, age=number), *before)
        for number, size in enumerate(sizes)
    ]
    deployment = a_deployment(after[0], surge=after[1])
    spread = {
        resized["metadata"]["name"]: size for resized, size in proportional_sizes(deployment, sets)
    }
    assert [spread["web-2"], spread["web-1"]] == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "4294967296"])
def test_without_the_annotation_shares_use_the_current_size(text: str) -> None:
    sets = [a_replica_set("new", 3), a_replica_set("old", 7, age=1)]
    for replica_set in sets:
        replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] = text
    deployment = a_deployment(20, status={"replicas": 10})
    spread = {
        replica_set["metadata"]["name"]: size
        for replica_set, size in proportional_sizes(deployment, sets)
    }
    assert spread == {"new": 6, "old": 14}


@given(
    desired=st.integers(0, 60),
    before=st.integers(1, 60),
    surge=st.integers(0, 10),
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=5),
)
def test_shares_add_up_to_the_allowed_number(
    desired: int, before: int, surge: int, sizes: list[int]
) -> None:
    sets = [noted(a_replica_set(f"s{n}", size, age=n), before) for n, size in enumerate(sizes)]
    spread = proportional_sizes(a_deployment(desired, surge=surge, unavailable=1), sets)
    total = sum(size for _, size in spread)
    allowed = desired + surge if desired else 0
    assert all(size >= 0 for _, size in spread)
    # Only the largest takes the remainder, at most its own size.
    assert total == allowed or (spread[0][1] == 0 and total > allowed)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param({"new": 0, "old": 0, "older": 0}, "new", id="none active: the new one"),
        pytest.param({"new": 0, "old": 3, "older": 0}, "old", id="the active one"),
        pytest.param({"new": 1, "old": 3, "older": 0}, None, id="two active: none"),
    ],
)
def test_the_only_active_replica_set_is_scaled(sizes: dict[str, int], expected: str | None) -> None:
    new, *old = (a_replica_set(name, size, age=n) for n, (name, size) in enumerate(sizes.items()))
    found = active_or_latest(new, old)
    assert (found and found["metadata"]["name"]) == expected


def test_without_active_ones_the_latest_is_scaled() -> None:
    old = [a_replica_set("older", 0, age=2), a_replica_set("old", 0, age=1)]
    found = active_or_latest(None, old)
    assert found is not None
    assert found["metadata"]["name"] == "old"
    assert active_or_latest(None, []) is None


@pytest.mark.parametrize(
    ("size", "desired", "available", "expected"),
    [(2, 2, 2, True), (2, 2, 0, False), (2, 3, 2, False), (1, 2, 2, False)],
)
def test_saturated_means_all_replicas_are_available(
    size: int, desired: int, available: int, expected: bool
) -> None:
    new = noted(a_replica_set("new", size, available=available), desired)
    assert is_saturated(a_deployment(2), new) is expected
    assert not is_saturated(a_deployment(2), None)


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "available", "expected"),
    [
        pytest.param(0, 10, 0, (10, 0), 9, id="nothing may be missing and no surge: one may"),
        pytest.param(2, 10, 0, (10, 0), 8, id="as many as may be missing"),
        pytest.param(2, 10, 0, (8, 0), 8, id="unavailable ones"),
        pytest.param(2, 10, 0, (9, 0), 8, id="an unavailable one and an available one"),
        pytest.param(2, 8, 2, (8, 0), 8, id="new ones are unavailable: none"),
        pytest.param(2, 8, 2, (8, 2), 6, id="new ones are available"),
    ],
)
def test_old_replicas_shrink_when_replaced(
    unavailable: int, old: int, new: int, available: tuple[int, int], expected: int
) -> None:
    deployment = a_deployment(10, unavailable=unavailable)
    older = a_replica_set("old", old, age=1, available=available[0])
    newer = a_replica_set("new", new, available=available[1])
    count_max = max_scale_down(deployment, [older, newer], newer)
    if count_max > 0:
        unhealthy, is_settled = unhealthy_old_sizes([older], count_max)
        assert is_settled
        for _, size in unhealthy:
            older = a_replica_set("old", size, age=1, available=available[0])
        for _, size in surplus_old_sizes(deployment, [older, newer], [older]):
            older = a_replica_set("old", size, age=1, available=available[0])
    assert replicas_of(older) == expected


@pytest.mark.parametrize(
    ("available", "count_max", "expected"), [(8, 1, 9), (8, 3, 8), (8, 0, 10), (10, 3, 10)]
)
def test_unhealthy_replicas_are_removed_first(
    available: int, count_max: int, expected: int
) -> None:
    old = a_replica_set("old", 10, available=available)
    sizes, is_settled = unhealthy_old_sizes([old], count_max)
    assert is_settled
    assert [size for _, size in sizes] == ([expected] if expected != 10 else [])


def test_no_scale_down_while_a_status_is_outdated() -> None:
    # It was scaled down just now: its status counts pods that are about to go.
    oldest = a_replica_set("oldest", 4, age=3, available=3)
    shrinking = a_replica_set("shrinking", 2, age=2, available=5)
    sizes, is_settled = unhealthy_old_sizes([shrinking, oldest], 10)
    assert [(replica_set["metadata"]["name"], size) for replica_set, size in sizes] == [
        ("oldest", 3)
    ]
    assert not is_settled


def test_the_oldest_shrinks_first() -> None:
    older, old = a_replica_set("older", 3, age=2), a_replica_set("old", 3, age=1)
    new = a_replica_set("new", 8, available=8)
    for replica_set in (older, old):
        replica_set["status"]["availableReplicas"] = 3
    sizes = surplus_old_sizes(a_deployment(10), [old, older, new], [old, older])
    # Fourteen are available and nine must be: five may go.
    assert [(replica_set["metadata"]["name"], size) for replica_set, size in sizes] == [
        ("older", 0),
        ("old", 1),
    ]
