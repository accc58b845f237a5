"""Validates single values: ports, ids, names, keys, IP addresses and CIDRs.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/{validation,ip}.go
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from kubesched.api.field_errors import label_key_errors, label_value_errors
from kubesched.cluster.apiserver.errors import Problem, invalid
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems

NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"
INT32_MAX = 2**31 - 1

_LABEL_KEY = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
_DNS_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_CHARACTERS = re.compile("[-a-z0-9]+")
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_PATTERN = re.compile(_CONFIG_KEY)
_HEADER = "[-A-Za-z0-9]+"
_HEADER_PATTERN = re.compile(_HEADER)
_UNDERSCORED_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED = rf"{_UNDERSCORED_LABEL}(\.{_UNDERSCORED_LABEL})*"
_UNDERSCORED_PATTERN = re.compile(_UNDERSCORED)


def range_text(low: int, high: int) -> str:
    """Return the text of upstream's InclusiveRangeError."""
    return f"must be between {low} and {high}, inclusive"


_prefixed_key_problems = lru_cache(maxsize=4096)(label_key_errors)


def key_problems(key: str) -> list[str]:
    """Return why a text is not a valid qualified name (a label key); do not modify the list."""
    if _LABEL_KEY.fullmatch(key):
        return []
    return _prefixed_key_problems(key)


def value_problems(value: str) -> list[str]:
    """Return why a text is not a valid label value."""
    if _LABEL_VALUE.fullmatch(value):
        return []
    return label_value_errors(value)


def check_dns_label(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a value is not a valid RFC 1123 label."""
    if _DNS_LABEL.fullmatch(value) is None:
        out.extend(invalid(path, value, text) for text in label_problems(value))


def check_subdomain(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a value is not a valid RFC 1123 subdomain."""
    if _DNS_LABEL.fullmatch(value) is None:
        out.extend(invalid(path, value, text) for text in subdomain_problems(value))


def check_qualified_name(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a value is not a valid qualified name."""
    out.extend(invalid(path, value, text) for text in key_problems(value))


def check_not_negative(value: int, path: str, out: list[Problem]) -> None:
    """Append an error if a number is negative."""
    if value < 0:
        out.append(invalid(path, value, NOT_NEGATIVE))


def check_positive(value: int, path: str, out: list[Problem]) -> None:
    """Append an error if a number is not positive."""
    if value <= 0:
        out.append(invalid(path, value, POSITIVE))


def underscored_subdomain_problems(value: str) -> list[str]:
    """Return why a DNS search path is not valid."""
    found = ["must be no more than 253 characters"] if len(value.encode()) > 253 else []
    if not _UNDERSCORED_PATTERN.fullmatch(value):
        found.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'_', '-' or '.', and must start and end with an alphanumeric character (e.g. "
            f"'example.com', regex used for validation is '{_UNDERSCORED}')"
        )
    return found


def port_number_problems(port: int) -> list[str]:
    """Validate the number of a port; return the errors."""
    return [] if 1 <= port <= 65535 else [range_text(1, 65535)]


def port_name_problems(name: str) -> list[str]:
    """Validate the name of a container's port; return the errors."""
    found = ["must be no more than 15 characters"] if len(name.encode()) > 15 else []
    if not _PORT_CHARACTERS.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        found.append("must not begin or end with a hyphen")
    return found


def check_port_or_name(port: int | str | None, path: str, out: list[Problem]) -> None:
    """Validate a port given by number or name, adding errors."""
    if isinstance(port, str):
        out.extend(invalid(path, port, text) for text in port_name_problems(port))
        return
    out.extend(invalid(path, port or 0, text) for text in port_number_problems(port or 0))


def id_problems(number: int) -> list[str]:
    """Validate the id of a user or group; return the errors."""
    return [] if 0 <= number <= INT32_MAX else [range_text(0, INT32_MAX)]


def env_name_problems(name: str) -> list[str]:
    """Validate the name of an environment variable by the relaxed rule; return the errors."""
    if name.isascii() and name.isprintable() and "=" not in name:
        return [] if name else ["environment variable name must be non-empty"]
    return [
        (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )
    ]


def header_problems(name: str) -> list[str]:
    """Validate the name of an HTTP header; return the errors."""
    if _HEADER_PATTERN.fullmatch(name):
        return []
    return [
        (
            "a valid HTTP header must consist of alphanumeric characters or '-' "
            f"(e.g. 'X-Header-Name', regex used for validation is '{_HEADER}')"
        )
    ]


def config_key_problems(key: str) -> list[str]:
    """Validate a key of a ConfigMap or Secret; return the errors."""
    found = ["must be no more than 253 characters"] if len(key.encode()) > 253 else []
    if not _CONFIG_KEY_PATTERN.fullmatch(key):
        found.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
            "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
            f"'{_CONFIG_KEY}')"
        )
    if key in {".", ".."}:
        found.append(f"must not be '{key}'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_SLOPPY_V4 = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")


@lru_cache(maxsize=4096)
def parse_ip_sloppily(text: str) -> Address | None:
    """Parse an IP address like netutils.ParseIPSloppy, which allows leading zeros."""
    if _SLOPPY_V4.fullmatch(text):
        parts = [int(part) for part in text.split(".")]
        return ipaddress.IPv4Address(bytes(parts)) if max(parts) < 256 else None
    head, colon, tail = text.rpartition(":")
    if colon and _SLOPPY_V4.fullmatch(tail):
        parts = [int(part) for part in tail.split(".")]
        if max(parts) > 255:
            return None
        text = f"{head}:{'.'.join(map(str, parts))}"
    if "%" in text or ":" not in text:
        return None
    try:
        found = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found


def _has_leading_zeros(text: str) -> bool:
    dotted = text.rpartition(":")[2]
    return "." in dotted and any(len(part) > 1 and part[0] == "0" for part in dotted.split("."))


def check_ip(value: str, path: str, out: list[Problem], known: tuple[str, ...] = ()) -> bool:
    """Validate an IP address unless the old object has it; return whether it is valid."""
    if value in known:
        return True
    found = parse_ip_sloppily(value)
    if found is None:
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        out.append(invalid(path, value, text))
        return False
    if _has_leading_zeros(value):
        out.append(invalid(path, value, "must not have leading 0s"))
        return False
    if ":" in value and found.version == 4:
        out.append(invalid(path, value, "must not be an IPv4-mapped IPv6 address"))
        return False
    return True


def parse_cidr_sloppily(text: str) -> tuple[Address, int] | None:
    """Parse a CIDR like netutils.ParseCIDRSloppy; return address and prefix length."""
    address, slash, length = text.partition("/")
    found = parse_ip_sloppily(address)
    if found is None or not slash or not length.isascii() or not length.isdigit():
        return None
    limit = 32 if ":" not in address else 128
    return (found, int(length)) if int(length) <= limit else None


def check_cidr(value: str, path: str, out: list[Problem], known: tuple[str, ...] = ()) -> None:
    """Validate a CIDR unless the old object has it, adding errors."""
    if value in known:
        return
    found = parse_cidr_sloppily(value)
    if found is None:
        text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        out.append(invalid(path, value, text))
        return
    address_text, _, length_text = value.partition("/")
    if _has_leading_zeros(address_text) or (len(length_text) > 1 and length_text[0] == "0"):
        out.append(invalid(path, value, "must not have leading 0s in IP or prefix length"))
        return
    address, length = found
    if ":" in value and address.version == 4:
        out.append(invalid(path, value, "must not have an IPv4-mapped IPv6 address"))
        return
    if int(address) & ((1 << (address.max_prefixlen - length)) - 1):
        out.append(invalid(path, value, "must not have bits set beyond the prefix length"))


def ip_warnings(value: str, path: str) -> list[str]:
    """Return a warning if an IP address is valid but not in canonical form."""
    found = parse_ip_sloppily(value)
    if found is None:
        return []
    if _has_leading_zeros(value) or (":" in value and found.version == 4):
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{found}"']
    if found.version == 6 and str(found) != value:
        return [
            f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{found}")'
        ]
    return []


def cidr_warnings(value: str, path: str) -> list[str]:
    """Return warnings if a CIDR is valid but not in canonical form."""
    found = parse_cidr_sloppily(value)
    if found is None:
        return []
    address, length = found
    network = ipaddress.ip_network(f"{address}/{length}", strict=False)
    if network.network_address != address:
        single = f"{address}/{address.max_prefixlen}"
        text = f'should be "{network}" or "{single}"?'
        return [f'{path}: CIDR value "{value}" is ambiguous in this context ({text})']
    if _has_leading_zeros(value.partition("/")[0]):
        return [f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"']
    if address.version == 6 and str(network) != value:
        advice = f'should be in RFC 5952 canonical format ("{network}")'
        return [f'{path}: IPv6 CIDR value "{value}" {advice}']
    return []


def is_dual_stack(families: Sequence[int]) -> bool:
    """Return whether IP families are a dual-stack pair."""
    return len(families) == 2 and families[0] != families[1]


def check_no_parent_references(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a path contains `..`."""
    if ".." in value and ".." in value.split("/"):
        out.append(invalid(path, value, "must not contain '..'"))


def check_relative_path(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a path is absolute or contains `..`."""
    if value.startswith("/"):
        out.append(invalid(path, value, "must be a relative path"))
    check_no_parent_references(value, path, out)


def check_local_path(value: str, path: str, out: list[Problem]) -> None:
    """Append an error if a path is absolute, contains `..` or starts with `..`."""
    check_relative_path(value, path, out)
    if value.startswith("..") and not value.startswith("../"):
        out.append(invalid(path, value, "must not start with '..'"))
