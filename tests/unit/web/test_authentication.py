"""Who is believed to ask, by which proof, and in which order."""

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
from kubesched.kit.rng import Generator
from kubesched.web.authentication import (
    AuthenticationError,
    Authenticator,
    TokenAuthenticator,
    User,
)
from kubesched.web.reviews import Reviews
from kubesched.web.settings import AuthenticationSettings
from kubesched.web.trust import Trust
from tests.unit.client.election_world import HandClock
from tests.unit.web.asking import ApiServer, Authority, asked, counts

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
    """An authenticator on a cluster, and the clock of both."""

    def __init__(self, server: ApiServer, settings: AuthenticationSettings | None = None) -> None:
        self.clock = HandClock()
        self.server = server
        log = NullLog()
        chosen = settings or AuthenticationSettings()
        self.trust = Trust(chosen, server, clock=self.clock, log=log)
        counted = counts(self.clock)
        reviews = Reviews(
            server,
            TOKEN_REVIEWS,
            clock=self.clock,
            rng=Generator(1, "x"),
            counts=counted.token_review,
        )
        tokens = TokenAuthenticator(
            reviews, ttl_s=chosen.token_cache_ttl_s, clock=self.clock, log=log, counts=counted
        )
        self.authenticator = Authenticator(self.trust, tokens, self.clock, counted)

    def reviews(self) -> int:
        return len([1 for _, path, _ in self.server.requests if path != CONFIG_MAP])


async def user_by(door: Door, **request: Any) -> User:
    await door.trust.start()
    try:
        return await door.authenticator.user_of(asked(**request))
    finally:
        await door.trust.stop()


def user(**request: Any) -> User:
    return asyncio.run(user_by(Door(ApiServer(honest)), **request))


def bearer(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")]


def test_who_shows_nothing_is_nobody() -> None:
    assert user() == User("system:anonymous", ("system:unauthenticated",))


def test_a_token_is_whose_the_api_server_says() -> None:
    found = user(headers=bearer("alice"))
    assert found == User("alice", ("g", "system:authenticated"), "7", {"k": ("v",)})


@pytest.mark.parametrize(
    ("token", "text"),
    [("known-bad", "invalid bearer token"), ("other", "no such token: other")],
)
def test_a_token_that_is_nobodys_is_not_taken_for_none(token: str, text: str) -> None:
    with pytest.raises(AuthenticationError) as raised:
        user(headers=bearer(token))
    assert str(raised.value) == text


def test_a_certificate_names_its_owner_and_their_groups() -> None:
    peer = CLIENTS.peer(
        (NameOID.ORGANIZATION_NAME, "dev"),
        (NameOID.ORGANIZATION_NAME, "ops"),
        (NameOID.COMMON_NAME, "jane"),
        (ObjectIdentifier("1.3.6.1.4.1.57683.2"), "uid-1"),
    )
    found = user(peer=peer)
    assert found.name == "jane"
    assert found.groups == ("dev", "ops", "system:authenticated")
    assert found.uid == "uid-1"
    (key,) = found.extra
    assert key == "authentication.kubernetes.io/credential-id"
    assert found.extra[key][0].startswith("X509SHA256=")


def test_a_certificate_goes_before_a_token_and_a_bad_token_does_not_spoil_it() -> None:
    peer = CLIENTS.peer((NameOID.COMMON_NAME, "jane"))
    assert user(peer=peer, headers=bearer("alice")).name == "jane"
    assert user(peer=peer, headers=bearer("other")).name == "jane"


def test_a_certificate_of_a_stranger_leaves_the_token() -> None:
    peer = Authority("elsewhere").peer((NameOID.COMMON_NAME, "jane"))
    assert user(peer=peer, headers=bearer("alice")).name == "alice"
    with pytest.raises(AuthenticationError) as raised:
        user(peer=peer)
    assert "certificate signed by unknown authority" in str(raised.value)
    assert str(raised.value).startswith("[x509: certificate signed by unknown authority, verifying")


def test_a_proxy_names_somebody() -> None:
    peer = PROXIES.peer((NameOID.COMMON_NAME, "front"))
    headers = [
        ("x-remote-user", "joe"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scopes%2Fx", "s"),
    ]
    found = user(peer=peer, headers=headers)
    assert found == User("joe", ("a", "b", "system:authenticated"), "", {"scopes/x": ("s",)})


def test_only_proxies_that_are_allowed_name_somebody() -> None:
    headers = [("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")]
    with pytest.raises(AuthenticationError) as raised:
        user(peer=PROXIES.peer((NameOID.COMMON_NAME, "other")), headers=headers)
    assert "x509: subject with cn=other is not in the allowed list" in str(raised.value)
    # A client of the same name as a proxy is a client.
    found = user(peer=CLIENTS.peer((NameOID.COMMON_NAME, "front")), headers=headers)
    assert (found.name, found.groups) == ("front", ("system:authenticated",))


def test_headers_without_a_certificate_name_nobody() -> None:
    headers = [("X-Remote-User", "joe"), ("X-Remote-Group", "system:masters")]
    assert user(headers=headers).name == "system:anonymous"


def test_the_group_of_all_known_is_not_given_twice() -> None:
    peer = CLIENTS.peer(
        (NameOID.ORGANIZATION_NAME, "system:authenticated"), (NameOID.COMMON_NAME, "jane")
    )
    assert user(peer=peer).groups == ("system:authenticated",)


def test_answers_about_tokens_are_remembered_for_a_while() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        for token, known in (("alice", True), ("known-bad", False)):
            before = door.reviews()
            for _ in range(2):
                try:
                    found = await door.authenticator.user_of(asked(headers=bearer(token)))
                    assert known
                    assert found.name == token
                except AuthenticationError:
                    assert not known
            assert door.reviews() == before + 1
        await door.clock.advance(9.9)
        await door.authenticator.user_of(asked(headers=bearer("alice")))
        assert door.reviews() == 2
        await door.clock.advance(0.2)
        await door.authenticator.user_of(asked(headers=bearer("alice")))
        assert door.reviews() == 3

    asyncio.run(play())


def test_what_the_api_server_could_not_say_is_asked_again() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        for _ in range(2):
            with pytest.raises(AuthenticationError):
                await door.authenticator.user_of(asked(headers=bearer("other")))
        assert door.reviews() == 2

    asyncio.run(play())


def test_many_at_once_ask_once() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest))
        users = await asyncio.gather(
            *(door.authenticator.user_of(asked(headers=bearer("alice"))) for _ in range(5))
        )
        assert {one.name for one in users} == {"alice"}
        assert door.reviews() == 1

    asyncio.run(play())


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(InternalServerError("etcd", code=500), 5, id="the server failed"),
        pytest.param(TransportError("cut", is_reset=True), 5, id="cut off"),
        pytest.param(TransportError("refused", is_refused=True), 1, id="nobody there"),
        pytest.param(ForbiddenError("no right", code=403), 1, id="no right to ask"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception, tries: int) -> None:
    async def play() -> None:
        door = Door(ApiServer(lambda *_: error))
        asking = asyncio.ensure_future(door.authenticator.user_of(asked(headers=bearer("alice"))))
        await door.clock.advance(9)
        with pytest.raises(AuthenticationError) as raised:
            await asking
        assert str(raised.value) == str(error)
        assert door.reviews() == tries

    asyncio.run(play())


def test_the_cluster_is_followed() -> None:
    async def play() -> None:
        shown = {"now": published()}
        door = Door(ApiServer(lambda *_: shown["now"]))
        changes: list[int] = []
        door.trust.on_change = lambda: changes.append(1)
        await door.trust.start()
        old = CLIENTS.peer((NameOID.COMMON_NAME, "jane"))
        assert (await door.authenticator.user_of(asked(peer=old))).name == "jane"
        other = Authority("next")
        shown["now"] = published(**{"client-ca-file": other.pem.decode()})
        await door.clock.advance(61)
        new = other.peer((NameOID.COMMON_NAME, "joan"))
        assert (await door.authenticator.user_of(asked(peer=new))).name == "joan"
        with pytest.raises(AuthenticationError):
            await door.authenticator.user_of(asked(peer=old))
        assert len(changes) == 2
        # Gone or broken: what was there before stays in force.
        shown["now"] = {"data": {"client-ca-file": "no certificate"}}
        await door.clock.advance(60)
        assert (await door.authenticator.user_of(asked(peer=new))).name == "joan"
        await door.trust.stop()

    asyncio.run(play())


def test_authorities_of_clients_are_looked_for_again_and_proxies_are_not() -> None:
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


def test_a_cluster_that_publishes_nothing_is_no_failure() -> None:
    async def play() -> None:
        strict = AuthenticationSettings(tolerate_lookup_failure=False)
        door = Door(ApiServer(lambda *_: NotFoundError("none", code=404)), strict)
        await door.trust.start()
        assert door.trust.authorities() == []
        await door.trust.stop()

    asyncio.run(play())


def test_who_skips_the_lookup_asks_nobody() -> None:
    async def play() -> None:
        door = Door(ApiServer(honest), AuthenticationSettings(skip_lookup=True))
        await door.trust.start()
        assert door.server.requests == []
        assert door.trust.authorities() == []

    asyncio.run(play())
