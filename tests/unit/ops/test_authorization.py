"""Authorization: groups, paths and SubjectAccessReviews."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubesched.client.errors import ForbiddenError
from kubesched.client.resources import SUBJECT_ACCESS_REVIEWS
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.ops.authentication import User
from kubesched.ops.authorization import Authorizer, Decision
from kubesched.ops.reviews import ReviewError, Reviews
from kubesched.ops.serving import AuthorizationSettings, ServingError
from tests.unit.client.election_world import HandClock
from tests.unit.ops.requests_and_certificates import ApiServer, serving_metrics

JANE = User("jane", ("dev",), "7", {"k": ("v",)})
MASTER = User("boss", ("system:masters",))
ALLOWED, REJECTED = Decision("allowed"), Decision("no-opinion")


def gate(
    clock: HandClock, server: ApiServer | None, settings: AuthorizationSettings | None = None
) -> Authorizer:
    reviews = None
    if server is not None:
        reviews = Reviews(
            server,
            SUBJECT_ACCESS_REVIEWS,
            clock=clock,
            rng=RandomStream(1, "x"),
            observe=serving_metrics().observe_access_review,
        )
    return Authorizer(settings or AuthorizationSettings(), reviews, clock=clock, log=NullLog())


def decide(authorizer: Authorizer, user: User, path: str, verb: str = "get") -> Decision:
    return asyncio.run(authorizer.decide(user, verb, path))


@pytest.mark.parametrize(
    ("paths", "path", "is_open"),
    [
        pytest.param(("/healthz",), "/healthz", True, id="the path"),
        pytest.param(("healthz",), "/healthz", True, id="without its slash"),
        pytest.param(("/healthz",), "//healthz", False, id="with one slash more"),
        pytest.param(("/healthz",), "/healthz/ping", False, id="below the path"),
        pytest.param(("/healthz*",), "/healthz/ping", True, id="below a star"),
        pytest.param(("/healthz*",), "/healthzy", True, id="a star is no folder"),
        pytest.param(("/healthz/*",), "/healthz", False, id="above a star"),
        pytest.param(("/",), "/", True, id="the root"),
        pytest.param(("/",), "/x", False, id="below the root"),
        pytest.param(("*",), "/x/y", True, id="everything"),
        pytest.param((), "/healthz", False, id="nothing"),
    ],
)
def test_always_allowed_paths(paths: tuple[str, ...], path: str, is_open: bool) -> None:
    authorizer = gate(HandClock(), None, AuthorizationSettings(always_allow_paths=paths))
    assert decide(authorizer, JANE, path).is_allowed == is_open


@pytest.mark.parametrize("path", ["/a*b", "*/x", "/**"])
def test_a_star_must_be_trailing(path: str) -> None:
    with pytest.raises(ServingError, match="only trailing \\* allowed in"):
        gate(HandClock(), None, AuthorizationSettings(always_allow_paths=(path,)))


def test_masters_need_no_review() -> None:
    server = ApiServer(lambda *_: {})
    assert decide(gate(HandClock(), server), MASTER, "/metrics") == ALLOWED
    assert server.requests == []


def test_a_review_has_all_attributes_of_the_user() -> None:
    server = ApiServer(lambda *_: {"status": {"allowed": True}})
    assert decide(gate(HandClock(), server), JANE, "/metrics", "delete") == ALLOWED
    ((method, path, review),) = server.requests
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert review == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {
            "nonResourceAttributes": {"path": "/metrics", "verb": "delete"},
            "user": "jane",
            "groups": ["dev"],
            "extra": {"k": ["v"]},
            "uid": "7",
        },
    }


@pytest.mark.parametrize(
    ("status", "decision"),
    [
        ({"allowed": False}, REJECTED),
        ({}, REJECTED),
        ({"allowed": False, "reason": "why"}, Decision("no-opinion", "why")),
        ({"denied": True, "reason": "no"}, Decision("denied", "no")),
    ],
)
def test_a_rejection_has_the_reason_of_the_review(
    status: dict[str, Any], decision: Decision
) -> None:
    server = ApiServer(lambda *_: {"status": status})
    assert decide(gate(HandClock(), server), JANE, "/metrics") == decision


def test_a_review_that_allows_and_denies_is_an_error() -> None:
    server = ApiServer(lambda *_: {"status": {"allowed": True, "denied": True}})
    with pytest.raises(ReviewError, match="both allow and deny"):
        decide(gate(HandClock(), server), JANE, "/metrics")


def test_a_forbidden_review_is_an_error() -> None:
    server = ApiServer(lambda *_: ForbiddenError("you may not", code=403))
    with pytest.raises(ReviewError, match="you may not"):
        decide(gate(HandClock(), server), JANE, "/metrics")


def test_requests_are_rejected_without_a_client() -> None:
    assert decide(gate(HandClock(), None), JANE, "/metrics") == REJECTED


@pytest.mark.parametrize(("is_allowed", "ttl_s"), [(True, 3), (False, 7)])
def test_reviews_are_cached_for_the_configured_time(is_allowed: bool, ttl_s: float) -> None:
    async def play() -> None:
        clock = HandClock()
        server = ApiServer(lambda *_: {"status": {"allowed": is_allowed}})
        settings = AuthorizationSettings(allow_cache_ttl_s=3, deny_cache_ttl_s=7)
        authorizer = gate(clock, server, settings)
        for _ in range(2):
            await authorizer.decide(JANE, "get", "/metrics")
        assert len(server.requests) == 1
        await clock.advance(ttl_s - 0.1)
        await authorizer.decide(JANE, "get", "/metrics")
        assert len(server.requests) == 1
        await clock.advance(0.1)
        await authorizer.decide(JANE, "get", "/metrics")
        assert len(server.requests) == 2
        await authorizer.decide(JANE, "put", "/metrics")
        assert len(server.requests) == 3

    asyncio.run(play())


def test_reviews_of_long_paths_are_not_cached() -> None:
    async def play() -> None:
        server = ApiServer(lambda *_: {"status": {"allowed": True}})
        authorizer = gate(HandClock(), server)
        for _ in range(2):
            await authorizer.decide(JANE, "get", "/" + "x" * 10_000)
        assert len(server.requests) == 2

    asyncio.run(play())
