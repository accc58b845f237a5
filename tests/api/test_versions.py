"""Resource versions: they grow, and they keep two writers apart."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH, Query
from kubesched.testing import Api, ApiServer, Response
from tests.api.objects import config_map, config_maps, make_things, version_of


def wait_gone(api: Api, path: str, query: Query) -> Response:
    """Return the first answer with 410: a cache may serve the past a little longer."""
    for _ in range(250):
        answer = api.get(path, query=query)
        if answer.code == 410:
            return answer
        time.sleep(0.1)
    return answer.must(410)


def test_every_write_has_a_larger_version(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    created = [api.post(path, config_map(name)).must(201).json for name in "abc"]
    patched = api.patch(f"{path}/a", {"data": {"k": "w"}}, MERGE_PATCH).must(200).json
    versions = [int(version_of(one)) for one in [*created, patched]]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_write_that_changes_nothing_keeps_the_version(
    api: Api, namespace: str, method: str
) -> None:
    created = api.post(config_maps(namespace), config_map("a")).must(201).json
    path = config_maps(namespace, "a")
    if method == "PUT":
        response = api.put(path, created).must(200).json
    else:
        response = api.patch(path, {"data": {"k": "v"}}, MERGE_PATCH).must(200).json
    assert version_of(response) == version_of(created)


def test_of_two_updates_from_the_same_version_one_wins(api: Api, namespace: str) -> None:
    created = api.post(config_maps(namespace), config_map("a")).must(201).json
    path = config_maps(namespace, "a")
    api.put(path, {**created, "data": {"k": "first"}}).must(200)
    second = api.put(path, {**created, "data": {"k": "second"}}).must(409)
    assert second.reason == "Conflict"
    assert api.get(path).json["data"] == {"k": "first"}


def test_of_many_updates_at_once_exactly_one_wins(api_server: ApiServer, namespace: str) -> None:
    with api_server.api() as first:
        created = first.post(config_maps(namespace), config_map("a")).must(201).json

    def update(number: int) -> int:
        with api_server.api() as own:
            changed = {**created, "data": {"k": str(number)}}
            return own.put(config_maps(namespace, "a"), changed).code

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(update, range(8)))
    assert codes == [200] + [409] * 7


def test_of_many_creates_at_once_exactly_one_wins(api_server: ApiServer, namespace: str) -> None:
    def create(_: int) -> int:
        with api_server.api() as own:
            return own.post(config_maps(namespace), config_map("a")).code

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(create, range(8)))
    assert codes == [201] + [409] * 7


def test_patches_without_version_never_conflict(api_server: ApiServer, namespace: str) -> None:
    with api_server.api() as first:
        first.post(config_maps(namespace), config_map("a")).must(201)

    def patch(number: int) -> int:
        with api_server.api() as own:
            body = {"data": {f"k{number}": "v"}}
            return own.patch(config_maps(namespace, "a"), body, MERGE_PATCH).code

    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(patch, range(5))) == {200}
    with api_server.api() as last:
        data = last.get(config_maps(namespace, "a")).json["data"]
    assert data == {"k": "v"} | {f"k{number}": "v" for number in range(5)}


def test_a_list_has_a_version_to_watch_from(api: Api, namespace: str) -> None:
    created = api.post(config_maps(namespace), config_map("a")).must(201).json
    listed = api.get(config_maps(namespace)).must(200).json
    assert int(version_of(listed)) >= int(version_of(created))


def test_a_future_version_is_awaited_and_then_rejected(api: Api, namespace: str) -> None:
    future = int(version_of(api.get(config_maps(namespace)).json)) + 1_000_000
    answer = api.get(config_maps(namespace), query={"resourceVersion": future}).must(504)
    assert answer.reason == "Timeout"
    assert answer.message.startswith(f"Timeout: Too large resource version: {future}, current: ")
    cause = answer.json["details"]["causes"][0]
    assert cause == {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}


@pytest.mark.slow
def test_an_expired_version_is_gone(api_server: ApiServer, api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    created = [api.post(path, config_map(name)).must(201).json for name in "abc"]
    token = api.get(path, query={"limit": 1}).json["metadata"]["continue"]
    api.post(path, config_map("d")).must(201)
    api_server.compact()
    query: dict[str, str | int] = {"limit": 1, "continue": token}
    gone = wait_gone(api, path, query)
    assert gone.reason == "Expired"
    assert gone.message.startswith("The provided continue parameter is too old to display a")
    # The error has a token for the rest of the list at the current version.
    query["continue"] = gone.json["metadata"]["continue"]
    rest = api.get(path, query=query).must(200).json
    assert [one["metadata"]["name"] for one in rest["items"]] == ["b"]
    # An exact older version is gone as well.
    query = {"resourceVersion": version_of(created[0]), "resourceVersionMatch": "Exact"}
    exact = api.get(path, query=query).must(410)
    assert exact.reason == "Expired"


def test_a_watch_from_an_expired_version_gets_an_error(api: Api, namespace: str) -> None:
    # A kind that was not there at version 1: of other kinds a server may know everything.
    path = make_things(api, namespace)
    with api.watch(path, query={"resourceVersion": "1"}) as watch:
        assert watch.code == 200
        event = watch.next()
        assert list(watch) == []
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")
