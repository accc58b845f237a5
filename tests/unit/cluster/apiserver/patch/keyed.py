"""A type whose list has a key without a default; keys of Kubernetes' own kinds have one."""

from kubesched.api.schema.load import schema_for
from kubesched.api.schema.types import Field, ListOf, Scalar, ScalarKind, Struct

_TEXT = Scalar(ScalarKind.STRING)
_CONTAINER = Struct("Container", {"name": Field(_TEXT), "image": Field(_TEXT)})
_SPEC = Struct("Spec", {"containers": Field(ListOf(_CONTAINER, "map", ("name",)))})
_POD = schema_for("", "v1", "Pod")
assert _POD is not None
KEYED = Struct("Pod", {**_POD.fields, "spec": Field(_SPEC)})
