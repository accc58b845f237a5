"""Versions of Kubernetes: the version that kubesched reproduces, and parsing.

Owns parsing, comparison and formatting of versions as far as flags and feature gates need them.
Never sends a request.
Upstream: apimachinery pkg/util/version/version.go, component-base version/dynamic.go
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kubesched.golang.strconv import go_quote

KUBERNETES_VERSION: Final = "v1.36.4"

_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)")
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_EXTRA: Final = re.compile(rf"(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?\s*")


class MinorVersion(NamedTuple):
    """A major and minor version, compared as numbers."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def minus_one(self) -> MinorVersion:
        """Return the minor version before this one."""
        return MinorVersion(self.major, max(self.minor - 1, 0))


class Version(NamedTuple):
    """A version with all its numbers, and whether it is a semantic version."""

    numbers: tuple[int, ...]
    is_semantic: bool = False
    pre_release: str = ""
    build: str = ""

    @property
    def minor_version(self) -> MinorVersion:
        """Return the first two numbers."""
        return MinorVersion(self.numbers[0], self.numbers[1])

    @property
    def patch(self) -> int:
        """Return the third number, or 0."""
        return self.numbers[2] if len(self.numbers) > 2 else 0

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        pre_release = f"-{self.pre_release}" if self.pre_release else ""
        return text + pre_release + (f"+{self.build}" if self.build else "")


def parse_version(text: str) -> Version:
    """Return a version, semantic if possible; raise ValueError with upstream's text."""
    try:
        return parse_semantic(text)
    except ValueError:
        return _parse(text, is_semantic=False)


def parse_semantic(text: str) -> Version:
    """Return a semantic version; raise ValueError with upstream's text."""
    return _parse(text, is_semantic=True)


def _parse(text: str, *, is_semantic: bool) -> Version:
    # Parity: version.go parse, v1.36
    match = _NUMBERS.fullmatch(text)
    if match is None:
        raise ValueError(f"could not parse {go_quote(text)} as version")
    parts = match[1].split(".")
    if len(parts) != 3 if is_semantic else len(parts) < 2:
        raise ValueError(f"illegal version string {go_quote(text)}")
    for index, part in enumerate(parts):
        if index == 0 or is_semantic:
            _reject_zero_prefix(part, text)
        if len(part) > 1_000 or int(part) >= 1 << 64:
            reason = f"strconv.ParseUint: parsing {go_quote(part)}: value out of range"
            raise ValueError(
                f"illegal non-numeric version component {go_quote(part)} in {go_quote(text)}: "
                f"{reason}"
            )
    numbers = tuple(map(int, parts))
    if not is_semantic or not match[2]:
        return Version(numbers, is_semantic)
    return _with_extra(numbers, match[2], text)


def _with_extra(numbers: tuple[int, ...], extra: str, text: str) -> Version:
    match = _EXTRA.fullmatch(extra)
    if match is None:
        raise ValueError(
            f"could not parse pre-release/metadata ({extra}) in version {go_quote(text)}"
        )
    pre_release = match[1] or ""
    for part in pre_release.split("."):
        if part.isdecimal() and int(part) < 1 << 64:
            _reject_zero_prefix(part, text)
    return Version(numbers, True, pre_release, match[2] or "")


def _reject_zero_prefix(part: str, text: str) -> None:
    if part.startswith("0") and part != "0":
        raise ValueError(
            f"illegal zero-prefixed version component {go_quote(part)} in {go_quote(text)}"
        )


def check_reported_version(text: str) -> None:
    """Check a text to report as the version; raise ValueError with upstream's text."""
    # Parity: component-base version/dynamic.go validateDynamicVersion, v1.36
    if text == KUBERNETES_VERSION:
        return
    if parse_semantic(text).numbers != parse_semantic(KUBERNETES_VERSION).numbers:
        raise ValueError(
            f"version {go_quote(text)} must match major/minor/patch of default version "
            f"{go_quote(KUBERNETES_VERSION)}"
        )
