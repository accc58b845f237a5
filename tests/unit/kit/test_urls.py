import pytest

from kubesched.kit.urls import split_address, without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        pytest.param(
            "https://ada:s3cret@host:6443/api?x=1", "https://ada:***@host:6443/api?x=1", id="whole"
        ),
        pytest.param("http://:s3cret@proxy:3128", "http://:***@proxy:3128", id="no user"),
        pytest.param("http://ada:s3:cr@et@proxy", "http://ada:***@proxy", id="a colon and an @"),
        pytest.param("socks5://ada:@proxy", "socks5://ada:***@proxy", id="an empty password"),
        pytest.param("https://ada@host", "https://ada@host", id="a user alone"),
        pytest.param("https://host:6443", "https://host:6443", id="a port"),
        pytest.param("https://host/a:b@c", "https://host/a:b@c", id="in the path"),
        pytest.param("https://host:1/?q=a:b@c", "https://host:1/?q=a:b@c", id="in the query"),
        pytest.param("host:6443", "host:6443", id="no scheme"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_only_the_password_is_hidden(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    ("address", "text"),
    [
        # The errors of Go 1.26's url.Parse.
        pytest.param(
            "https://a:b@[::1/x", """parse "https://a:***@[::1/x": missing ']' in host""", id="IPv6"
        ),
        pytest.param(
            "http://host:x1", 'parse "http://host:x1": invalid port ":x1" after host', id="port"
        ),
    ],
)
def test_an_invalid_address_is_an_error(address: str, text: str) -> None:
    with pytest.raises(ValueError, match="parse") as rejected:
        split_address(address)
    assert str(rejected.value) == text


def test_an_address_is_split() -> None:
    parts = split_address("https://ada:s3cret@[::1]:6443/base")
    assert (parts.hostname, parts.port, parts.path) == ("::1", 6443, "/base")
