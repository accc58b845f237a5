"""What a command-line flag can hold, and how its text is read and shown.

Owns the value types of upstream's flags: what each accepts, the words when it does not, what giving
a flag twice means, and the spelling in `/flagz`. Never knows which flags there are.
Upstream: spf13/pflag, component-base cli/flag, logs/api/v1/pflags.go, version/verflag
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from kubesched.app.go_values import (
    csv_line,
    csv_record,
    parse_bool,
    parse_float32,
    parse_int,
    parse_ip,
    parse_uint,
)
from kubesched.config.gotext import format_duration, go_float, parse_duration
from kubesched.config.versions import check_reported_version
from kubesched.objects.field_errors import go_quote
from kubesched.objects.quantity import FORMAT_WRONG, Quantity


class Value(Protocol):
    """What a flag holds."""

    type_name: ClassVar[str]
    value: Any

    def set(self, text: str) -> None:
        """Take a text from the command line; raise ValueError with upstream's words."""


@dataclass(slots=True)
class TextValue:
    """Any text."""

    value: str = ""
    type_name: ClassVar[str] = "string"

    def set(self, text: str) -> None:
        self.value = text

    def __str__(self) -> str:
        return self.value


@dataclass(slots=True)
class BoolValue:
    """A truth value; the flag alone means true."""

    value: bool = False
    type_name: ClassVar[str] = "bool"

    def set(self, text: str) -> None:
        self.value = parse_bool(text)

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(slots=True)
class IntValue:
    """An integer of 64 bits."""

    value: int = 0
    type_name: ClassVar[str] = "int"

    def set(self, text: str) -> None:
        self.value = parse_int(text, 64)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(slots=True)
class Int32Value:
    """An integer of 32 bits."""

    value: int = 0
    type_name: ClassVar[str] = "int32"

    def set(self, text: str) -> None:
        self.value = parse_int(text, 32)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(slots=True)
class Float32Value:
    """A float of 32 bits."""

    value: float = 0.0
    type_name: ClassVar[str] = "float32"

    def set(self, text: str) -> None:
        self.value = parse_float32(text)

    def __str__(self) -> str:
        return go_float(self.value, single=True)


@dataclass(slots=True)
class DurationValue:
    """A Go duration, in nanoseconds."""

    value: int = 0
    type_name: ClassVar[str] = "duration"

    def set(self, text: str) -> None:
        self.value = parse_duration(text)

    def __str__(self) -> str:
        return format_duration(self.value)


@dataclass(slots=True)
class IPValue:
    """An IP address; an empty text leaves it as it is."""

    value: str = ""
    type_name: ClassVar[str] = "ip"

    def set(self, text: str) -> None:
        if not text:
            return
        try:
            self.value = parse_ip(text.strip())
        except ValueError:
            raise ValueError(f"failed to parse IP: {go_quote(text)}") from None

    def __str__(self) -> str:
        return self.value


@dataclass(slots=True)
class TextsValue:
    """Texts parted by commas; the first time replaces the default, further times add to it."""

    value: tuple[str, ...] = ()
    is_set: bool = False
    type_name: ClassVar[str] = "stringSlice"

    def set(self, text: str) -> None:
        found = tuple(csv_record(text))
        self.value = self.value + found if self.is_set else found
        self.is_set = True

    def __str__(self) -> str:
        return f"[{csv_line(list(self.value))}]"


@dataclass(slots=True)
class WholeTextsValue:
    """Texts, one each time the flag is given: commas mean nothing."""

    value: tuple[str, ...] = ()
    type_name: ClassVar[str] = "stringArray"

    def set(self, text: str) -> None:
        self.value = (*self.value, text)

    def __str__(self) -> str:
        return f"[{csv_line(list(self.value))}]"


@dataclass(slots=True)
class Int32sValue:
    """Integers parted by commas."""

    value: tuple[int, ...] = ()
    is_set: bool = False
    type_name: ClassVar[str] = "int32Slice"

    def set(self, text: str) -> None:
        found = tuple(parse_int(part, 32) for part in text.split(","))
        self.value = self.value + found if self.is_set else found
        self.is_set = True

    def __str__(self) -> str:
        return f"[{','.join(map(str, self.value))}]"


class TextMapValue:
    """Keys and texts; None until the flag is given."""

    __slots__ = ("value",)
    type_name: ClassVar[str] = "stringToString"

    def __init__(self) -> None:
        self.value: dict[str, str] | None = None

    def set(self, text: str) -> None:
        count = text.count("=")
        if count == 0:
            raise ValueError(f"{text} must be formatted as key=value")
        pairs = [text.strip('"')] if count == 1 else csv_record(text)
        found: dict[str, str] = {}
        for pair in pairs:
            key, is_pair, value = pair.partition("=")
            if not is_pair:
                raise ValueError(f"{pair} must be formatted as key=value")
            found[key] = value
        self.value = {**(self.value or {}), **found}

    def __str__(self) -> str:
        pairs = [f"{key}={value}" for key, value in sorted((self.value or {}).items())]
        return f"[{csv_line(pairs)}]"


@dataclass(frozen=True, slots=True)
class NamedCertKey:
    """A certificate, its key, and the names it is for; without names those it has itself."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


class NamedCertKeysValue:
    """Certificates for names, one each time the flag is given."""

    __slots__ = ("value",)
    type_name: ClassVar[str] = "namedCertKey"

    def __init__(self) -> None:
        self.value: tuple[NamedCertKey, ...] = ()

    def set(self, text: str) -> None:
        pair, has_names, names = text.partition(":")
        if has_names and not names.strip():
            raise ValueError("empty names list is not allowed")
        files = [part.strip() for part in pair.strip().split(",")]
        if len(files) != 2:
            raise ValueError("expected comma separated certificate and key file paths")
        listed = tuple(name.strip() for name in names.strip().split(",")) if has_names else ()
        self.value = (*self.value, NamedCertKey(files[0], files[1], listed))

    def __str__(self) -> str:
        return f"[{';'.join(map(str, self.value))}]"


class GatesValue:
    """Settings of feature gates by component, in the order given; "" is the default component."""

    __slots__ = ("value",)
    type_name: ClassVar[str] = "colonSeparatedMultimapStringString"

    def __init__(self) -> None:
        self.value: dict[str, list[str]] = {}

    def set(self, text: str) -> None:
        for pair in text.split(","):
            if not pair:
                continue
            component, has_component, setting = pair.partition(":")
            if not has_component:
                component, setting = "", pair
            self.value.setdefault(component.strip(), []).append(setting.strip())

    def __str__(self) -> str:
        return ",".join(f"{c}:{setting}" for c in sorted(self.value) for setting in self.value[c])


@dataclass(slots=True)
class LevelValue:
    """How much to log."""

    value: int = 0
    type_name: ClassVar[str] = "Level"

    def set(self, text: str) -> None:
        self.value = parse_uint(text, 31)

    def __str__(self) -> str:
        return str(self.value)


class VModuleValue:
    """How much to log by file; every time the flag is given adds to it."""

    __slots__ = ("value",)
    type_name: ClassVar[str] = "pattern=N,..."

    def __init__(self) -> None:
        self.value: tuple[tuple[str, int], ...] = ()

    def set(self, text: str) -> None:
        for item in text.split(","):
            if item:
                self.value = (*self.value, self._item(item))

    @staticmethod
    def _item(item: str) -> tuple[str, int]:
        parts = item.split("=")
        if len(parts) != 2 or not parts[0] or not parts[1]:
            raise ValueError(f"{go_quote(item)} does not have the pattern=N format")
        try:
            return parts[0], parse_uint(parts[1], 31)
        except ValueError as problem:
            raise ValueError(f"parsing verbosity in {go_quote(item)}: {problem}") from None

    def __str__(self) -> str:
        return ",".join(f"{pattern}={level}" for pattern, level in self.value)


@dataclass(slots=True)
class QuantityValue:
    """A size such as 512 or 2Ki."""

    text: str = "0"
    value: int = 0
    type_name: ClassVar[str] = "quantity"

    def set(self, text: str) -> None:
        if text != text.strip():
            raise ValueError(FORMAT_WRONG)
        quantity = Quantity.parse(text)
        self.text, self.value = str(quantity), quantity.value()

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class VersionValue:
    """Whether to tell the version, in which form, or another text to report as the version."""

    value: str = "false"
    type_name: ClassVar[str] = "version"

    def set(self, text: str) -> None:
        if text == "raw":
            self.value = text
        elif text.startswith("v"):
            check_reported_version(text)
            self.value = text
        else:
            self.value = "true" if parse_bool(text) else "false"

    def __str__(self) -> str:
        return self.value
