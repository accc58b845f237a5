"""Resource quantities: "500m", "2Gi", "12e6" as exact numbers.

Parsing, the canonical text, and the conversion to int64 with upstream's rounding, capping and
wrapping.
Upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go (and amount.go, math.go,
suffix.go, scale_int.go beside it)
"""

import re
from functools import lru_cache, total_ordering
from typing import Final, Literal

Format = Literal["DecimalExponent", "BinarySI", "DecimalSI"]

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_WRONG: Final = "unable to parse numeric part of quantity"
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

_NANO: Final = -9
_MILLI: Final = -3
# Digits an int64 can always hold; upstream's bound for its fast representation.
_INT64_DIGITS: Final = 18
# Larger powers of ten cannot be written out in reasonable time, nor can longer numbers be parsed.
# No such quantity is stored: the API server would have to write it out to validate it.
# Differs: upstream would compute with such numbers until it runs out of memory, ADR 8.
_EXPONENT_MAX: Final = 10_000
_DIGITS_MAX: Final = 4_000

_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: name for name, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {exponent: name for name, exponent in _BINARY_SUFFIXES.items()}

# The parts of upstream's hand-written scanner, all of them optional: "+", "." and "m" are zero.
_PARTS: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)"
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?)([0-9]+)")
_WHITE_SPACE: Final = (
    " \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@total_ordering
class Quantity:
    """An exact decimal number that keeps its format.

    Equality, order and hash are those of the number; the notation only shows in `str`.
    """

    # The number is unscaled * 10**exponent. Upstream keeps small numbers in an int64 and others
    # in a big decimal, and the two round and overflow differently: is_big tells which form this is.
    __slots__ = ("_text", "exponent", "format", "is_big", "unscaled")

    unscaled: int
    exponent: int
    is_big: bool
    format: Format
    _text: str

    def __init__(
        self, unscaled: int = 0, exponent: int = 0, *, big: bool = False,
        format: Format = "DecimalSI", text: str = "",  # noqa: A002  # Upstream's word for it.
    ) -> None:  # fmt: skip
        """Take the number as `unscaled * 10**exponent`; use `Quantity.parse` for wire texts."""
        put = object.__setattr__
        put(self, "unscaled", unscaled)
        put(self, "exponent", exponent)
        put(self, "is_big", big or not INT64_MIN <= unscaled <= INT64_MAX)
        put(self, "format", format)
        put(self, "_text", text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity is immutable: cannot set {name}")

    @classmethod
    def parse(cls, text: str | int | float) -> "Quantity":
        """Return the quantity of a JSON string or number, or raise ValueError."""
        if isinstance(text, bool):
            raise ValueError(FORMAT_WRONG)
        return _parse(text.strip(_WHITE_SPACE) if isinstance(text, str) else str(text))

    def value(self) -> int:
        """Return the number as an int64, fractions rounded as upstream's Value does."""
        return self._scaled_value(0)

    def milli_value(self) -> int:
        """Return thousandths as an int64, rounded and wrapped as upstream's MilliValue does."""
        return self._scaled_value(_MILLI)

    def is_zero(self) -> bool:
        """Return whether the number is zero."""
        return self.unscaled == 0

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def _scaled_value(self, scale: int) -> int:
        if self.is_big:
            return _big_scaled_value(self.unscaled, -self.exponent, -scale)
        if self.exponent < scale:
            return _divide_away_from_zero(self.unscaled, scale - self.exponent)
        return _multiply_int64(self.unscaled, self.exponent - scale)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum, in the form of the first operand unless that is zero."""
        return self._sum(other, other.unscaled)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Return the difference, in the form of the first operand unless that is zero."""
        return self._sum(other, -other.unscaled)

    def __neg__(self) -> "Quantity":
        """Return the number with the other sign."""
        return Quantity(-self.unscaled, self.exponent, big=self.is_big, format=self.format)

    def _sum(self, other: "Quantity", addend: int) -> "Quantity":
        # Parity: quantity.go Quantity.Add and Sub, amount.go int64Amount.Add, v1.36
        form = other.format if self.unscaled == 0 else self.format
        big = self.is_big or other.is_big
        if not big and addend == 0:
            return Quantity(self.unscaled, self.exponent, format=form)
        if not big and self.unscaled == 0:
            return Quantity(addend, other.exponent, format=form)
        exponent = min(self.exponent, other.exponent)
        left = self.unscaled * _ten_to(self.exponent - exponent)
        right = addend * _ten_to(other.exponent - exponent)
        big = big or not (_is_int64(left) and _is_int64(right))
        return Quantity(left + right, exponent, big=big, format=form)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same number, however written."""
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._number() == other._number()

    def __lt__(self, other: "Quantity") -> bool:
        """Compare the numbers exactly."""
        exponent = min(self.exponent, other.exponent)
        left = self.unscaled * _ten_to(self.exponent - exponent)
        return left < other.unscaled * _ten_to(other.exponent - exponent)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._number())

    def _number(self) -> tuple[int, int]:
        """Return the number in lowest terms: no factor of ten left in the first part."""
        return _without_factor(self.unscaled, 10, self.exponent)

    def __str__(self) -> str:
        """Return upstream's canonical text, or the wire text where upstream keeps that."""
        return self._text or self._canonical()

    def __repr__(self) -> str:
        """Show the text."""
        return f"Quantity({str(self)!r})"

    def _canonical(self) -> str:
        # Parity: quantity.go CanonicalizeBytes, v1.36
        if self.unscaled == 0:
            return "0"
        if self.format == "BinarySI":
            whole, rest = self._whole_and_rest()
            if rest == 0 and not -1024 < whole < 1024:
                amount, power = _without_factor(whole, 1024, 0)
                return f"{amount}{_BINARY_NAMES.get(power * 10, '')}"
        amount, exponent = self._number()
        padding = exponent % 3
        amount, exponent = amount * _ten_to(padding), exponent - padding
        if self.format == "DecimalExponent":
            return f"{amount}e{exponent}" if exponent else str(amount)
        # Upstream drops a suffix it has no name for; so the text of 1000E is "1".
        return f"{amount}{_DECIMAL_NAMES.get(exponent, '')}"

    def _whole_and_rest(self) -> tuple[int, int]:
        if self.exponent >= 0:
            return self.unscaled * _ten_to(self.exponent), 0
        return divmod(self.unscaled, _ten_to(-self.exponent))


@lru_cache(maxsize=16_384, typed=True)
def parse_quantity(text: str | int | float) -> Quantity:
    """Return `Quantity.parse(text)`, cached: clusters repeat the same few texts."""
    return Quantity.parse(text)


def _parse(text: str) -> Quantity:
    # Parity: quantity.go ParseQuantity, v1.36
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        raise ValueError(FORMAT_WRONG)
    num, denom = match["num"] or "0", match["denom"] or ""
    base, exponent, form = _interpret_suffix(match["suffix"])
    negative = match["sign"] == "-"
    if _fits_int64(num, denom, exponent, form):
        digits = int(num + denom)
        if form == "BinarySI":
            unscaled, scale = digits << exponent, 0
            is_canonical = digits & 7 != 0
        else:
            unscaled, scale = digits, exponent - len(denom)
            shifted = num + denom
            is_canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
        kept = text if is_canonical else ""
        return Quantity(-unscaled if negative else unscaled, scale, format=form, text=kept)
    has_digit = any(char.isdigit() for char in text[: match.start("suffix")])
    if not has_digit or len(num) + len(denom) > _DIGITS_MAX:
        raise ValueError(NUMERIC_WRONG)
    return _parse_big(int(num + denom), len(denom), (base, exponent, form), negative=negative)


def _fits_int64(num: str, denom: str, exponent: int, form: Format) -> bool:
    """Return whether upstream reads the number into an int64 rather than a big decimal."""
    if form == "BinarySI":
        # 2**10 is about three decimal digits.
        return not denom and len(num) + exponent * 3 // 10 + 1 <= 15
    return len(num) + len(denom) <= _INT64_DIGITS and exponent - len(denom) >= _NANO


def _parse_big(
    digits: int, places: int, suffix: tuple[int, int, Format], *, negative: bool
) -> Quantity:
    base, exponent, form = suffix
    if base == 2:
        digits, scale = digits << exponent, -places
    else:
        scale = exponent - places
    if digits:
        # Fractions below a billionth are rounded up, so that no request becomes zero.
        if scale < _NANO:
            digits, scale = _divide_away_from_zero(digits, _NANO - scale), _NANO
        else:
            digits, scale = digits * _ten_to(scale - _NANO), _NANO
    else:
        # A zero keeps its scale, as upstream, up to a limit that can be written out.
        scale = max(scale, -_EXPONENT_MAX)
    if form == "BinarySI" and digits > INT64_MAX * 10**9:
        digits, scale = INT64_MAX, 0
    if form == "BinarySI" and scale == _NANO and 0 < digits < 10**9:
        form = "DecimalSI"
    return Quantity(-digits if negative else digits, scale, big=True, format=form)


def _interpret_suffix(suffix: str) -> tuple[int, int, Format]:
    """Return base, exponent and form of a suffix, or raise ValueError."""
    # Parity: suffix.go interpret, v1.36
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], "DecimalSI"
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], "BinarySI"
    match = _EXPONENT.fullmatch(suffix)
    # An int64 has at most 19 digits.
    if match is None or len(match[2].lstrip("0")) > 19:
        raise ValueError(SUFFIX_WRONG)
    written = int(match[1] + (match[2].lstrip("0") or "0"))
    if not _is_int64(written):
        raise ValueError(SUFFIX_WRONG)
    # Upstream keeps the low 32 bits.
    exponent = (written + 2**31) % 2**32 - 2**31
    if exponent > _EXPONENT_MAX:
        raise ValueError(SUFFIX_WRONG)
    return 10, exponent, "DecimalExponent"


def _ten_to(power: int) -> int:
    return int(10**power)


def _is_int64(number: int) -> bool:
    return INT64_MIN <= number <= INT64_MAX


def _wrap_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _divide_away_from_zero(number: int, places: int) -> int:
    """Return number / 10**places rounded away from zero."""
    if number == 0:
        return 0
    # Any such number is less than one unit: no need to write out the power.
    size = abs(number)
    quotient = 1 if places > size.bit_length() else -(-size // _ten_to(places))
    return quotient if number > 0 else -quotient


def _multiply_int64(number: int, places: int) -> int:
    """Return number * 10**places as upstream's int64 code answers it, overflow included."""
    # Parity: math.go positiveScaleInt64, v1.36. Callers ignore its failure, so its result
    # counts: the wrapped product where it multiplies at once, else zero.
    if number == 0 or places == 0:
        return number
    product = number * _ten_to(places)
    if _is_int64(product):
        return product
    wraps = places in {1, 2, 3, 6, 9} and number != INT64_MIN
    return _wrap_int64(product) if wraps else 0


def _big_scaled_value(unscaled: int, scale: int, wanted_scale: int) -> int:
    """Return unscaled / 10**(scale - wanted_scale) as an int64, as upstream answers it."""
    # Parity: scale_int.go scaledValue, v1.36. Scales count decimal places here.
    places = scale - wanted_scale
    if places == 0:
        return _wrap_int64(unscaled)
    if places < 0:
        # On amd64 a float too large for an int64 becomes the smallest int64.
        factor = _ten_to(-places) if -places <= _INT64_DIGITS else INT64_MIN
        return _wrap_int64(_wrap_int64(unscaled) * factor)
    divisor = _ten_to(places)
    if unscaled < INT64_MAX and places <= _INT64_DIGITS:
        low = _wrap_int64(unscaled)
        quotient = abs(low) // divisor * (1 if low >= 0 else -1)
        # One up for negative numbers too: -1.5 becomes 0 here, and -2 in the int64 form.
        return quotient + (1 if low % divisor else 0)
    quotient, rest = divmod(unscaled, divisor)
    return _wrap_int64(_wrap_int64(quotient) + (1 if rest else 0))


def _without_factor(number: int, factor: int, power: int) -> tuple[int, int]:
    """Move every factor out of the number into the power."""
    if number == 0:
        return 0, 0
    while number % factor == 0:
        number, power = number // factor, power + 1
    return number, power
