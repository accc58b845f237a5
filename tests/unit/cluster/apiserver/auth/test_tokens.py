"""Tokens: their users, and the end of their validity."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kubesched.cluster.apiserver.auth.authentication import ADMIN, Authenticator
from kubesched.cluster.apiserver.auth.authorization import Authorizer
from kubesched.cluster.apiserver.auth.reviews import Reviews
from kubesched.cluster.apiserver.auth.token_request import TokenAction
from kubesched.cluster.apiserver.auth.tokens import ISSUER, ServiceAccountTokens, new_key
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.strategy import Request, User
from tests.unit.cluster.apiserver.auth.readers import Documents

START_S = 1_800_000_000.0


class HandClock:
    def __init__(self) -> None:
        self.time_s = START_S

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        self.time_s += delay_s


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return new_key()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def documents() -> Documents:
    account = {"metadata": {"name": "robot", "namespace": "team", "uid": "u-1"}}
    return Documents({("", "serviceaccounts"): [account]})


@pytest.fixture
def authenticator(key: rsa.RSAPrivateKey, clock: HandClock, documents: Documents) -> Authenticator:
    return Authenticator(clock, documents, ServiceAccountTokens(key), [ISSUER], {"secret": ADMIN})


@pytest.fixture
def request_token(
    authenticator: Authenticator, clock: HandClock, documents: Documents
) -> Callable[[Document], Document]:
    action = TokenAction(authenticator.accounts, clock, lambda: "id-1", [ISSUER])

    def create_token(spec: Document) -> Document:
        request = Request(
            ADMIN, documents, "2027-01-15T08:00:00Z", "", namespace="team", name="robot"
        )
        return action.create({"spec": spec}, request, documents)  # type: ignore[arg-type]

    return create_token


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_new_token_names_its_service_account(
    authenticator: Authenticator, request_token: Callable[[Document], Document]
) -> None:
    token = request_token({})["status"]["token"]

    assert authenticator.user_of(bearer(token)) == User(
        "system:serviceaccount:team:robot",
        "u-1",
        (
            "system:serviceaccounts",
            "system:serviceaccounts:team",
            "system:authenticated",
        ),
        {"authentication.kubernetes.io/credential-id": ["JTI=id-1"]},
    )


def test_a_token_expires(
    authenticator: Authenticator,
    clock: HandClock,
    request_token: Callable[[Document], Document],
) -> None:
    answer = request_token({"expirationSeconds": 600})
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T08:10:00Z"
    token = answer["status"]["token"]
    authenticator.user_of(bearer(token))

    clock.time_s += 611

    with pytest.raises(ApiError, match="Unauthorized"):
        authenticator.user_of(bearer(token))


def test_a_token_is_invalid_after_its_service_account_is_deleted(
    authenticator: Authenticator,
    documents: Documents,
    request_token: Callable[[Document], Document],
) -> None:
    token = request_token({})["status"]["token"]
    documents.documents[("", "serviceaccounts")].clear()

    with pytest.raises(ApiError, match="Unauthorized"):
        authenticator.user_of(bearer(token))


def test_a_token_for_another_audience_is_rejected(
    authenticator: Authenticator, request_token: Callable[[Document], Document]
) -> None:
    token = request_token({"audiences": ["vault"]})["status"]["token"]

    with pytest.raises(ApiError, match="Unauthorized"):
        authenticator.user_of(bearer(token))


def test_a_token_of_another_key_is_rejected(
    authenticator: Authenticator, documents: Documents
) -> None:
    account = next(documents.list("", "serviceaccounts"))
    forged = ServiceAccountTokens(new_key()).issue(
        account, audiences=[ISSUER], now_s=int(START_S), lifetime_s=600, token_id="x"
    )

    with pytest.raises(ApiError, match="Unauthorized"):
        authenticator.user_of(bearer(forged))


def test_too_short_a_lifetime_is_rejected_in_upstreams_words(
    request_token: Callable[[Document], Document],
) -> None:
    with pytest.raises(ApiError) as rejected:
        request_token({"expirationSeconds": 60})

    assert rejected.value.message == (
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '
        "60: may not specify a duration less than 10 minutes"
    )


def test_known_and_unknown_tokens(authenticator: Authenticator) -> None:
    assert authenticator.user_of(bearer("secret")) == ADMIN
    assert authenticator.user_of({}).name == "system:anonymous"


def test_a_client_certificate_names_user_and_groups(authenticator: Authenticator) -> None:
    certificate = {
        "subject": ((("organizationName", "devs"),), (("commonName", "jane"),)),
    }

    assert authenticator.user_of({}, certificate) == User(
        "jane", groups=("devs", "system:authenticated")
    )


def test_a_token_review_accepts_and_rejects(
    authenticator: Authenticator, documents: Documents
) -> None:
    reviews = Reviews(authenticator, Authorizer())
    request = Request(ADMIN, documents, "", "")

    good = reviews.token_review({"spec": {"token": "secret"}}, request)["status"]
    bad = reviews.token_review({"spec": {"token": "other"}}, request)["status"]

    assert good == {
        "authenticated": True,
        "user": {"username": "kubernetes-admin",
                 "groups": ["system:masters", "system:authenticated"]},
        "audiences": [ISSUER],
    }  # fmt: skip
    assert bad == {"user": {}, "error": "invalid bearer token"}
