"""Base class and common types of wire structs.

The struct settings, the bounded integers, and the marks of texts that `check` parses.
Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go
"""

from typing import Annotated, Final, TypeAlias

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# The marks are read by `check` and by the null rules of `decode`.
QUANTITY: Final = "quantity"
TIME: Final = "time"
QuantityText: TypeAlias = Annotated[str | int | float, msgspec.Meta(extra={"text": QUANTITY})]
Quantities: TypeAlias = dict[str, QuantityText]
Time: TypeAlias = Annotated[str, msgspec.Meta(extra={"text": TIME})]


class NilStrings(tuple[str, ...]):
    """An absent list, which messages distinguish from an empty list."""

    __slots__ = ()


NIL_STRINGS: Final = NilStrings()


class Wire(msgspec.Struct, rename="camel", frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Base of all wire structs: immutable, camelCase, untracked by the garbage collector."""


class Empty(Wire, frozen=True, kw_only=True):
    """A struct of which only the presence matters."""
