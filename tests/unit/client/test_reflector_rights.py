"""Resources that are not served, and missing rights."""

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
    rejected,
    run,
    watched,
)

Call = tuple[Resource, str, str]


class Rejections:
    """Records missing rights."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, resource: Resource, verb: str, error: ForbiddenError) -> None:
        self.calls.append((resource, verb, error.message))


def forbidden() -> Answer:
    return rejected(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')


def not_found() -> Answer:
    return rejected(404, "NotFound", "the server could not find the requested resource")


def test_a_missing_right_is_reported_once_and_prevents_sync() -> None:
    rejections = Rejections()
    world = run(
        *[forbidden()] * 5,
        until=lambda world: len(world.queries) == 5,
        on_forbidden=rejections,
    )
    assert rejections.calls == [
        (PODS, "list", 'pods is forbidden: User "x" cannot list resource "pods"')
    ]
    assert not world.reflector.has_synced
    assert world.synced == []
    assert world.log.getvalue() == ""


def test_a_granted_right_is_used() -> None:
    rejections = Rejections()
    world = run(forbidden(), listed(5, pod("a", 3)), on_forbidden=rejections)
    assert world.reflector.has_synced
    assert world.synced == [PODS]
    assert len(world.clock.slept) == 1


def test_a_revoked_right_is_reported_again() -> None:
    rejections = Rejections()
    world = run(
        forbidden(), listed(5, pod("a", 3)), forbidden(), forbidden(),
        until=lambda world: len(world.queries) == 4,
        on_forbidden=rejections,
    )  # fmt: skip
    assert [verb for _, verb, _ in rejections.calls] == ["list", "watch", "list"]
    assert not world.reflector.has_synced


def test_the_right_to_list_is_not_enough() -> None:
    rejections = Rejections()

    def is_over(world: World) -> bool:
        return len(world.queries) == 6

    answers = [listed(5, pod("a", 3)), forbidden()] * 3
    world = run(*answers, until=is_over, on_forbidden=rejections)
    assert [verb for _, verb, _ in rejections.calls] == ["watch"]
    assert not world.reflector.has_synced
    assert world.sink.summary == [("ADDED", "ns/a")]


def test_without_a_callback_a_missing_right_is_logged_once() -> None:
    world = run(*[forbidden()] * 3, until=lambda world: len(world.queries) == 3)
    assert world.log.getvalue().count("Failed to watch") == 1
    assert world.log.getvalue().startswith("E")


def test_an_unserved_resource_is_skipped_with_one_log_line() -> None:
    world = run(
        *[not_found()] * 3, until=lambda world: len(world.queries) == 3, resource=RESOURCE_CLAIMS
    )
    assert world.reflector.has_synced
    assert world.synced == [RESOURCE_CLAIMS]
    assert world.clock.slept == [300.0, 300.0, 300.0]
    (line,) = world.log.getvalue().splitlines()
    assert line.startswith("I")
    assert "Skipping a resource that the API server does not serve" in line
    assert 'resource="resourceclaims" apiVersion="resource.k8s.io/v1"' in line


def test_a_resource_that_is_served_later_is_listed() -> None:
    world = run(not_found(), listed(5, pod("a", 3)), watched(added("b", 6)))
    assert world.sink.summary == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert not any(change.initial for change in world.sink.changes)
    assert len(world.synced) == 1
    assert "Resource is now served" in world.log.getvalue()


def test_a_resource_that_was_served_before_is_retried_often() -> None:
    world = run(
        listed(5, pod("a", 3)),
        watched(deleted("a", 6)),
        not_found(),
        not_found(),
        listed(9, pod("b", 8)),
    )
    assert world.sink.summary == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/b")]
    assert sum(world.clock.slept) < 10
    assert world.log.getvalue().count("Skipping") == 1
