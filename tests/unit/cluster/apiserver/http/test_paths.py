"""Requests by path and method."""

from __future__ import annotations

import pytest

from kubesched.cluster.apiserver.http.request_info import is_true, request_info


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", ("get", "", "v1", "a", "pods", "p", "")),
        ("POST", "/api/v1/namespaces/a/pods/p/binding",
         ("create", "", "v1", "a", "pods", "p", "binding")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments",
         ("deletecollection", "apps", "v1", "a", "deployments", "", "")),
        ("DELETE", "/api/v1/nodes/n", ("delete", "", "v1", "", "nodes", "n", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "a", "namespaces", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize",
         ("update", "", "v1", "a", "namespaces", "a", "finalize")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", "")),
        ("GET", "/api/v1/watch/namespaces/a/pods", ("watch", "", "v1", "a", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/x%2Fy", ("get", "", "v1", "a", "pods", "x/y", "")),
    ],
)  # fmt: skip
def test_paths_of_resources(method: str, path: str, expected: tuple[str, ...]) -> None:
    info = request_info(method, path, {})
    assert info.is_resource_request
    found = (info.verb, info.group, info.version, info.namespace, info.resource, info.name,
             info.subresource)  # fmt: skip
    assert found == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/version"]
)
def test_paths_of_no_resource(path: str) -> None:
    info = request_info("GET", path, {})
    assert not info.is_resource_request
    assert info.verb == "get"


def test_a_list_becomes_a_watch_by_its_query() -> None:
    assert request_info("GET", "/api/v1/pods", {"watch": "1"}).verb == "watch"
    assert request_info("GET", "/api/v1/pods", {"watch": "false"}).verb == "list"


def test_one_object_is_not_watched_by_its_query() -> None:
    assert request_info("GET", "/api/v1/nodes/n", {"watch": "1"}).verb == "get"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, False), ("", True), ("true", True), ("1", True), ("0", False), ("FALSE", False)],
)
def test_switches(text: str | None, *, expected: bool) -> None:
    assert is_true(text) is expected


def test_authorizers_see_the_one_name_that_is_selected() -> None:
    query = {"fieldSelector": "metadata.name=a,spec.x!=y"}
    info = request_info("GET", "/api/v1/pods", query)
    assert (info.name, info.selected_name) == ("", "a")
    broken = request_info("GET", "/api/v1/pods", {"fieldSelector": "metadata.name"})
    assert broken.selected_name == ""
