"""What all wire structs have in common.

Owns the struct settings, the bounded integers and the marks that tell `check` what a text must
parse as. Never names a kind.
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
    """A list that was not there, where a message must tell it from an empty one."""

    __slots__ = ()


NIL_STRINGS: Final = NilStrings()


class Wire(msgspec.Struct, rename="camel", frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The settings every wire struct inherits: immutable, camelCase, invisible to the collector."""


class Empty(Wire, frozen=True, kw_only=True):
    """Something of which only the presence counts."""
