"""Who passes: groups, paths, and the API server's word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubesched.client.errors import ForbiddenError
from kubesched.client.resources import SUBJECT_ACCESS_REVIEWS
from kubesched.kit.log import NullLog
from kubesched.kit.rng import Generator
from kubesched.web.authentication import User
from kubesched.web.authorization import Authorizer, Decision
from kubesched.web.reviews import ReviewError, Reviews
from kubesched.web.settings import AuthorizationSettings, ServingError
from tests.unit.client.election_world import HandClock
from tests.unit.web.asking import ApiServer, counts

JANE = User("jane", ("dev",), "7", {"k": ("v",)})
MASTER = User("boss", ("system:masters",))
ALLOWED, REFUSED = Decision("allowed"), Decision("no-opinion")


def gate(
    clock: HandClock, server: ApiServer | None, settings: AuthorizationSettings | None = None
) -> Authorizer:
    reviews = None
    if server is not None:
        reviews = Reviews(
            server,
            SUBJECT_ACCESS_REVIEWS,
            clock=clock,
            rng=Generator(1, "x"),
            counts=counts(clock).access_review,
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
def test_paths_that_are_always_open(paths: tuple[str, ...], path: str, is_open: bool) -> None:
    authorizer = gate(HandClock(), None, AuthorizationSettings(always_allow_paths=paths))
    assert decide(authorizer, JANE, path).is_allowed == is_open


@pytest.mark.parametrize("path", ["/a*b", "*/x", "/**"])
def test_a_star_stands_at_the_end(path: str) -> None:
    with pytest.raises(ServingError, match="only trailing \\* allowed in"):
        gate(HandClock(), None, AuthorizationSettings(always_allow_paths=(path,)))


def test_masters_are_not_asked_about() -> None:
    server = ApiServer(lambda *_: {})
    assert decide(gate(HandClock(), server), MASTER, "/metrics") == ALLOWED
    assert server.requests == []


def test_the_api_server_is_asked_with_all_that_is_known() -> None:
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
        ({"allowed": False}, REFUSED),
        ({}, REFUSED),
        ({"allowed": False, "reason": "why"}, Decision("no-opinion", "why")),
        ({"denied": True, "reason": "no"}, Decision("denied", "no")),
    ],
)
def test_refusals_have_reasons(status: dict[str, Any], decision: Decision) -> None:
    server = ApiServer(lambda *_: {"status": status})
    assert decide(gate(HandClock(), server), JANE, "/metrics") == decision


def test_yes_and_no_at_once_is_an_error() -> None:
    server = ApiServer(lambda *_: {"status": {"allowed": True, "denied": True}})
    with pytest.raises(ReviewError, match="both allow and deny"):
        decide(gate(HandClock(), server), JANE, "/metrics")


def test_who_may_not_ask_says_so() -> None:
    server = ApiServer(lambda *_: ForbiddenError("you may not", code=403))
    with pytest.raises(ReviewError, match="you may not"):
        decide(gate(HandClock(), server), JANE, "/metrics")


def test_with_nobody_to_ask_nobody_passes() -> None:
    assert decide(gate(HandClock(), None), JANE, "/metrics") == REFUSED


@pytest.mark.parametrize(("is_allowed", "ttl_s"), [(True, 3), (False, 7)])
def test_answers_are_remembered_as_long_as_the_flags_say(is_allowed: bool, ttl_s: float) -> None:
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


def test_paths_too_long_are_not_remembered() -> None:
    async def play() -> None:
        server = ApiServer(lambda *_: {"status": {"allowed": True}})
        authorizer = gate(HandClock(), server)
        for _ in range(2):
            await authorizer.decide(JANE, "get", "/" + "x" * 10_000)
        assert len(server.requests) == 2

    asyncio.run(play())
