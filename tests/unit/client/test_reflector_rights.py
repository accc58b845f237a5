"""Kinds that a server does not serve, and rights that are missing."""

from __future__ import annotations

from kubesched.client.errors import ForbiddenError
from kubesched.client.resources import PODS, RESOURCE_CLAIMS, Resource
from tests.unit.client.reflector_world import (
    Answer,
    World,
    added,
    deleted,
    listed,
    pod,
    refused,
    run,
    watched,
)

Call = tuple[Resource, str, str]


class Refusals:
    """Who is told of missing rights."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, resource: Resource, verb: str, error: ForbiddenError) -> None:
        self.calls.append((resource, verb, error.message))


def forbidden() -> Answer:
    return refused(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')


def not_found() -> Answer:
    return refused(404, "NotFound", "the server could not find the requested resource")


def test_a_missing_right_is_told_once_and_keeps_the_reflector_from_being_synced() -> None:
    refusals = Refusals()
    world = run(
        *[forbidden()] * 5,
        until=lambda world: len(world.queries) == 5,
        on_forbidden=refusals,
    )
    assert refusals.calls == [
        (PODS, "list", 'pods is forbidden: User "x" cannot list resource "pods"')
    ]
    assert not world.reflector.has_synced
    assert world.synced == []
    assert world.log.getvalue() == ""


def test_a_right_that_is_given_is_used() -> None:
    refusals = Refusals()
    world = run(forbidden(), listed(5, pod("a", 3)), on_forbidden=refusals)
    assert world.reflector.has_synced
    assert world.synced == [PODS]
    assert len(world.clock.slept) == 1


def test_a_right_that_is_taken_away_is_told_again() -> None:
    refusals = Refusals()
    world = run(
        forbidden(), listed(5, pod("a", 3)), forbidden(), forbidden(),
        until=lambda world: len(world.queries) == 4,
        on_forbidden=refusals,
    )  # fmt: skip
    assert [verb for _, verb, _ in refusals.calls] == ["list", "watch", "list"]
    assert not world.reflector.has_synced


def test_a_right_to_list_without_one_to_watch_is_not_enough() -> None:
    refusals = Refusals()

    def is_over(world: World) -> bool:
        return len(world.queries) == 6

    answers = [listed(5, pod("a", 3)), forbidden()] * 3
    world = run(*answers, until=is_over, on_forbidden=refusals)
    assert [verb for _, verb, _ in refusals.calls] == ["watch"]
    assert not world.reflector.has_synced
    assert world.told.shown == [("ADDED", "ns/a")]


def test_without_anybody_to_tell_it_is_logged_once() -> None:
    world = run(*[forbidden()] * 3, until=lambda world: len(world.queries) == 3)
    assert world.log.getvalue().count("Failed to watch") == 1
    assert world.log.getvalue().startswith("E")


def test_a_kind_that_is_not_served_is_skipped_with_one_line() -> None:
    world = run(
        *[not_found()] * 3, until=lambda world: len(world.queries) == 3, resource=RESOURCE_CLAIMS
    )
    assert world.reflector.has_synced
    assert world.synced == [RESOURCE_CLAIMS]
    assert world.clock.slept == [300.0, 300.0, 300.0]
    (line,) = world.log.getvalue().splitlines()
    assert line.startswith("I")
    assert "Skipping a kind that the API server does not serve" in line
    assert 'resource="resourceclaims" apiVersion="resource.k8s.io/v1"' in line


def test_a_kind_that_is_served_later_is_taken_up() -> None:
    world = run(not_found(), listed(5, pod("a", 3)), watched(added("b", 6)))
    assert world.told.shown == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert not any(one.initial for one in world.told.changes)
    assert len(world.synced) == 1
    assert "serves this kind now" in world.log.getvalue()


def test_a_kind_that_is_gone_for_a_while_is_looked_for_often() -> None:
    world = run(
        listed(5, pod("a", 3)),
        watched(deleted("a", 6)),
        not_found(),
        not_found(),
        listed(9, pod("b", 8)),
    )
    assert world.told.shown == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/b")]
    assert sum(world.clock.slept) < 10
    assert world.log.getvalue().count("Skipping") == 1
