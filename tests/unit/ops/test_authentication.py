"""Authentication: credentials and their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.x509 import ObjectIdentifier
from cryptography.x509.oid import NameOID

from kubesched.client.errors import (
    ForbiddenError,
    InternalServerError,
    NotFoundError,
    TransportError,
)
from kubesched.client.resources import TOKEN_REVIEWS
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.ops.authentication import (
    AuthenticationError,
    Authenticator,
    TokenAuthenticator,
    User,
)
from kubesched.ops.client_certificates import Trust
from kubesched.ops.reviews import Reviews
from kubesched.ops.serving import AuthenticationSettings
from tests.unit.client.election_world import HandClock
from tests.unit.ops.requests_and_certificates import (
    ApiServer,
    Authority,
    a_request,
    serving_metrics,
)

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
CLIENTS, PROXIES = Authority("clients"), Authority("proxies")
ALICE = {"username": "alice", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}


def published(**changes: str) -> dict[str, Any]:
    data = {
        "client-ca-file": CLIENTS.pem.decode(),
        "requestheader-client-ca-file": PROXIES.pem.decode(),
        "requestheader-allowed-names": '["front"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        **changes,
    }
    return {"data": data}


def reviewed(token: str) -> dict[str, Any]:
    if token == "alice":
        return {"status": {"authenticated": True, "user": ALICE}}
    if token == "known-bad":
        return {"status": {"authenticated": False}}
    return {"status": {"authenticated": False, "error": f"no such token: {token}"}}


def honest(path: str, document: dict[str, Any]) -> Any:
    return published() if path == CONFIG_MAP else reviewed(document["spec"]["token"])


class Door:
    """An authenticator with a fake API server and a test clock."""

    def __init__(self, server: ApiServer, settings: AuthenticationSettings | None = None) -> None:
        self.clock = HandClock()
        self.server = server
        log = NullLog()
        chosen = settings or AuthenticationSettings()
        self.trust = Trust(chosen, server, clock=self.clock, log=log)
        metrics = serving_metrics()
        reviews = Reviews(
            server,
            TOKEN_REVIEWS,
            clock=self.clock,
            rng=RandomStream(1, "x"),
            observe=metrics.observe_token_review,
        )
        tokens = TokenAuthenticator(
            reviews, ttl_s=chosen.token_cache_ttl_s, clock=self.clock, log=log, metrics=metrics
        )
        self.authenticator = Authenticator(self.trust, tokens, self.clock, metrics)

    def reviews(self) -> int:
        return len([1 for _, path, _ in self.server.requests if path != CONFIG_MAP])


async def user_by(door: Door, **request: Any) -> User:
    await door.trust.start()
    try:
        return await door.authenticator.user_of(a_request(**request))
    finally:
        await door.trust.stop()


def user(**request: Any) -> User:
    return asyncio.run(user_by(Door(ApiServer(honest)), **request))


def bearer(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")]


def test_a_request_without_credentials_is_anonymous() -> None:
    assert user() == User("system:anonymous", ("system:unauthenticated",))


def test_a_token_is_authenticated_by_a_review() -> None:
    caller = user(headers=bearer("alice"))
    assert caller == User("alice", ("g", "system:authenticated"), "7", {"k": ("v",)})


@pytest.mark.parametrize(
    ("token", "text"),
    [("known-bad", "invalid bearer token"), ("other", "no such token: other")],
)
def test_an_unknown_token_is_an_error(token: str, text: str) -> None:
    with pytest.raises(AuthenticationError) as raised:
        user(headers=bearer(token))
    assert str(raised.value) == text


def test_a_certificate_has_user_and_groups() -> None:
    peer = CLIENTS.peer(
        (NameOID.ORGANIZATION_NAME, "dev"),
        (NameOID.ORGANIZATION_NAME, "ops"),
        (NameOID.COMMON_NAME, "jane"),
        (ObjectIdentifier("1.3.6.1.4.1.57683.2"), "uid-1"),
    )
    caller = user(peer=peer)
    assert caller.name == "jane"
    assert caller.groups == ("dev", "ops", "system:authenticated")
    assert caller.uid == "uid-1"
    (key,) = caller.extra
    assert key == "authentication.kubernetes.io/credential-id"
    assert caller.extra[key][0].startswith("X509SHA256=")


def test_a_valid_certificate_precedes_an_invalid_token() -> None:
    peer = CLIENTS.peer((NameOID.COMMON_NAME, "jane"))
    assert user(peer=peer, headers=bearer("alice")).name == "jane"
    assert user(peer=peer, headers=bearer("other")).name == "jane"


def test_an_untrusted_certificate_falls_back_to_the_token() -> None:
    peer = Authority("elsewhere").peer((NameOID.COMMON_NAME, "jane"))
    assert user(peer=peer, headers=bearer("alice")).name == "alice"
    with pytest.raises(AuthenticationError) as raised:
        user(peer=peer)
    assert "certificate signed by unknown authority" in str(raised.value)
    assert str(raised.value).startswith("[x509: certificate signed by unknown authority, verifying")


def test_a_trusted_proxy_names_the_user() -> None:
    peer = PROXIES.peer((NameOID.COMMON_NAME, "front"))
    headers = [
        ("x-remote-user", "joe"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scopes%2Fx", "s"),
    ]
    caller = user(peer=peer, headers=headers)
    assert caller == User("joe", ("a", "b", "system:authenticated"), "", {"scopes/x": ("s",)})


def test_only_allowed_proxies_name_the_user() -> None:
    headers = [("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")]
    with pytest.raises(AuthenticationError) as raised:
        user(peer=PROXIES.peer((NameOID.COMMON_NAME, "other")), headers=headers)
    assert "x509: subject with cn=other is not in the allowed list" in str(raised.value)
    # A client of the same name as a proxy is a client.
    caller = user(peer=CLIENTS.peer((NameOID.COMMON_NAME, "front")), headers=headers)
    assert (caller.name, caller.groups) == ("front", ("system:authenticated",))


def test_headers_without_a_certificate_are_ignored() -> None:
    headers = [("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")]
    assert user(headers=headers).name == "system:anonymous"


def test_the_group_of_authenticated_users_is_not_added_twice() -> None:
    peer = CLIENTS.peer(
        (NameOID.ORGANIZATION_NAME, "system:authenticated"), (NameOID.COMMON_NAME, "jane")
    )
    assert user(peer=peer).groups == ("system:authenticated",)


def test_token_reviews_are_cached() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        for token, is_valid in (("alice", True), ("known-bad", False)):
            before = door.reviews()
            for _ in range(2):
                try:
                    caller = await door.authenticator.user_of(a_request(headers=bearer(token)))
                    assert is_valid
                    assert caller.name == token
                except AuthenticationError:
                    assert not is_valid
            assert door.reviews() == before + 1
        await door.clock.advance(9.9)
        await door.authenticator.user_of(a_request(headers=bearer("alice")))
        assert door.reviews() == 2
        await door.clock.advance(0.2)
        await door.authenticator.user_of(a_request(headers=bearer("alice")))
        assert door.reviews() == 3

    asyncio.run(play())


def test_failed_token_reviews_are_not_cached() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        for _ in range(2):
            with pytest.raises(AuthenticationError):
                await door.authenticator.user_of(a_request(headers=bearer("other")))
        assert door.reviews() == 2

    asyncio.run(play())


def test_concurrent_requests_share_one_review() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        users = await asyncio.gather(
            *(door.authenticator.user_of(a_request(headers=bearer("alice"))) for _ in range(5))
        )
        assert {caller.name for caller in users} == {"alice"}
        assert door.reviews() == 1

    asyncio.run(play())


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(InternalServerError("etcd", code=500), 5, id="the server failed"),
        pytest.param(TransportError("cut", is_reset=True), 5, id="cut off"),
        pytest.param(TransportError("refused", is_refused=True), 1, id="no server"),
        pytest.param(ForbiddenError("no right", code=403), 1, id="a forbidden review"),
    ],
)
def test_transient_errors_are_retried(error: Exception, tries: int) -> None:
    async def play() -> None:
        door = Door(ApiServer(lambda *_: error))
        asking = asyncio.ensure_future(
            door.authenticator.user_of(a_request(headers=bearer("alice")))
        )
        await door.clock.advance(9)
        with pytest.raises(AuthenticationError) as raised:
            await asking
        assert str(raised.value) == str(error)
        assert door.reviews() == tries

    asyncio.run(play())


def test_authorities_of_the_cluster_are_refreshed() -> None:
    async def play() -> None:
        shown = {"now": published()}
        door = Door(ApiServer(lambda *_: shown["now"]))
        changes: list[int] = []
        door.trust.on_change = lambda: changes.append(1)
        await door.trust.start()
        old = CLIENTS.peer((NameOID.COMMON_NAME, "jane"))
        assert (await door.authenticator.user_of(a_request(peer=old))).name == "jane"
        other = Authority("next")
        shown["now"] = published(**{"client-ca-file": other.pem.decode()})
        await door.clock.advance(61)
        new = other.peer((NameOID.COMMON_NAME, "joan"))
        assert (await door.authenticator.user_of(a_request(peer=new))).name == "joan"
        with pytest.raises(AuthenticationError):
            await door.authenticator.user_of(a_request(peer=old))
        assert len(changes) == 2
        # Deleted or malformed: the previous authorities stay in force.
        shown["now"] = {"data": {"client-ca-file": "no certificate"}}
        await door.clock.advance(60)
        assert (await door.authenticator.user_of(a_request(peer=new))).name == "joan"
        await door.trust.stop()

    asyncio.run(play())


def test_authorities_of_clients_are_looked_up_again_but_not_those_of_proxies() -> None:
    async def play() -> None:
        shown: dict[str, Any] = {"now": ForbiddenError("not yet", code=403)}
        door = Door(ApiServer(lambda *_: shown["now"]))
        await door.trust.start()
        assert door.trust.authorities() == []
        shown["now"] = published()
        await door.clock.advance(61)
        assert door.trust.clients() is not None
        assert door.trust.proxies() is None
        await door.trust.stop()

    asyncio.run(play())


def test_a_missing_config_map_is_no_error() -> None:
    async def play() -> None:
        strict = AuthenticationSettings(tolerate_lookup_failure=False)
        door = Door(ApiServer(lambda *_: NotFoundError("none", code=404)), strict)
        await door.trust.start()
        assert door.trust.authorities() == []
        await door.trust.stop()

    asyncio.run(play())


def test_skip_lookup_sends_no_request() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest), AuthenticationSettings(skip_lookup=True))
        await door.trust.start()
        assert door.server.requests == []
        assert door.trust.authorities() == []

    asyncio.run(play())
