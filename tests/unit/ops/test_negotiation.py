"""The media type that an Accept header negotiates."""

from __future__ import annotations

import pytest

from kubesched.ops.http_messages import JSON, PLAIN, YAML, Chosen, Kind, is_plain, negotiate

FLAGZ = Kind("config.k8s.io", "v1beta1", "Flagz")
STRUCTURED = ";g=config.k8s.io;v=v1beta1;as=Flagz"


def allows(media_type: str, kind: Kind | None) -> bool:
    return kind is None if media_type == PLAIN else kind == FLAGZ


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        pytest.param("", Chosen(JSON), id="no Accept header: the first media type"),
        pytest.param("text/plain", Chosen(PLAIN), id="text"),
        pytest.param(
            "*/*", Chosen(PLAIN), id="a wildcard: the first media type that needs no kind"
        ),
        pytest.param("*", Chosen(PLAIN), id="a lone star"),
        pytest.param("text/*", Chosen(PLAIN), id="any text"),
        pytest.param("*/plain", None, id="a star before a name is no wildcard"),
        pytest.param("application/json", None, id="an object of no kind"),
        pytest.param(JSON + STRUCTURED, Chosen(JSON, FLAGZ), id="an object"),
        pytest.param(YAML + STRUCTURED, Chosen(YAML, FLAGZ), id="an object in YAML"),
        pytest.param(
            f"{JSON}{STRUCTURED};pretty=1", Chosen(JSON, FLAGZ, True), id="an object to be read"
        ),
        pytest.param(f"application/*{STRUCTURED}", Chosen(JSON, FLAGZ), id="any object"),
        pytest.param(
            f"text/plain;q=0.5, {YAML}{STRUCTURED}", Chosen(YAML, FLAGZ), id="the higher quality"
        ),
        pytest.param(
            f"*/*, {YAML}{STRUCTURED}", Chosen(YAML, FLAGZ), id="a name goes before a wildcard"
        ),
        pytest.param(f"{JSON}{STRUCTURED};sv=v1", None, id="a version of the server"),
        pytest.param("text/plain;as=Flagz", None, id="text of a kind"),
        pytest.param("text, /plain, text/plain/x", None, id="no media type"),
        pytest.param("text/html;q=1, text/plain;q=x", Chosen(PLAIN), id="an invalid quality"),
    ],
)
def test_the_first_media_type_that_both_support_is_chosen(
    accept: str, chosen: Chosen | None
) -> None:
    assert negotiate(accept, (JSON, YAML, PLAIN), allows) == chosen


def test_errors_have_any_media_type_but_no_kind() -> None:
    assert negotiate(YAML, (JSON, YAML), is_plain) == Chosen(YAML)
    assert negotiate(YAML + STRUCTURED, (JSON, YAML), is_plain) is None
