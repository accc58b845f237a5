"""Validates a CustomResourceDefinition: names, versions, columns, subresources, conversion.

Schemas are in crd.schema_rules.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from kubesched.cluster.apiserver.crd.internal_form import internal_versions, to_internal
from kubesched.cluster.apiserver.crd.schema_rules import schema_problems
from kubesched.cluster.apiserver.documents import Document, dig, metadata_of, name_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.names import dns_1035_problems, subdomain_problems
from kubesched.golang.strconv import go_quote

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_APPROVED: Final = "api-approved.kubernetes.io"
_SELECTABLE_MAX: Final = 8


def definition_problems(document: Document, old: Document | None = None) -> list[Problem]:
    """Validate a definition except its metadata; return the errors."""
    spec = to_internal(document.get("spec") or {})
    problems: list[Problem] = []
    if old is None:
        expected = f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}"
        if name_of(document) and name_of(document) != expected:
            text = 'must be spec.names.plural+"."+spec.group'
            problems.append(invalid("metadata.name", name_of(document), text))
    problems += _spec_problems(spec)
    if old is not None:
        problems += _immutable_problems(spec, to_internal(old["spec"]), old)
    status = document.get("status") or {}
    problems += status_problems(document)
    problems += _stored_problems(status.get("storedVersions") or [], spec["versions"])
    problems += _approval_problems(document, old)
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        problems.append(invalid("spec.preserveUnknownFields", True, text))
    return problems


def status_problems(document: Document) -> list[Problem]:
    """Validate a definition's status; return the errors."""
    names = dig(document, "status", "acceptedNames") or {}
    return _name_problems(names, "status.acceptedNames")


def _spec_problems(spec: Document) -> list[Problem]:
    problems = _group_problems(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        problems.append(required("spec.scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        problems.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    if spec["validation"] is None:
        problems += [
            required(f"spec.versions[{index}].schema.openAPIV3Schema")
            for index, version in enumerate(spec["versions"])
            if dig(version, "schema", "openAPIV3Schema") is None
        ]
    for index, version in enumerate(spec["versions"]):
        problems += _version_problems(spec, version, f"spec.versions[{index}]")
    problems += _versions_problems(spec)
    # The internal form repeats the name of the first version.
    first = spec["versions"][0].get("name") or "" if spec["versions"] else ""
    if first and (wrong := dns_1035_problems(first)):
        problems.append(invalid("spec.version", first, ",".join(wrong)))
    names = spec["names"]
    problems += [
        required(f"spec.names.{key}")
        for key in ("plural", "singular", "kind", "listKind")
        if not names.get(key)
    ]
    problems += _name_problems(names, "spec.names")
    has_status = any(
        "status" in (one or {})
        for one in [
            spec["subresources"],
            *(version.get("subresources") for version in spec["versions"]),
        ]
    )
    if spec["validation"] is not None:
        schema = spec["validation"].get("openAPIV3Schema")
        if schema is not None:
            problems += schema_problems(schema, "spec.validation", has_status=has_status)
    problems += _subresource_problems(spec["subresources"], "spec.subresources")
    problems += _column_problems(spec["additionalPrinterColumns"], "spec.additionalPrinterColumns")
    if spec["selectableFields"]:
        schema = (spec["validation"] or {}).get("openAPIV3Schema")
        problems += _selectable_problems(spec["selectableFields"], schema, "spec.selectableFields")
    problems += _conversion_problems(spec.get("conversion"))
    return problems


def _group_problems(group: str) -> list[Problem]:
    if not group:
        return [required("spec.group")]
    wrong = subdomain_problems(group)
    if wrong:
        return [invalid("spec.group", group, ",".join(wrong))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def _version_problems(spec: Document, version: Document, path: str) -> list[Problem]:
    problems: list[Problem] = []
    name = version.get("name") or ""
    wrong = dns_1035_problems(name)
    if wrong:
        problems.append(invalid(f"{path}.name", name, ",".join(wrong)))
    problems += _deprecation_problems(version, path)
    subresources = version.get("subresources") or spec["subresources"] or {}
    schema = dig(version, "schema", "openAPIV3Schema")
    if schema is not None:
        has_status = "status" in subresources
        problems += schema_problems(schema, f"{path}.schema", has_status=has_status)
    problems += _subresource_problems(version.get("subresources"), f"{path}.subresources")
    problems += _column_problems(
        version.get("additionalPrinterColumns"), f"{path}.additionalPrinterColumns"
    )
    fields = version.get("selectableFields")
    if fields:
        problems += _selectable_problems(fields, schema, f"{path}.selectableFields")
    return problems


def _deprecation_problems(version: Document, path: str) -> list[Problem]:
    text = version.get("deprecationWarning")
    place = f"{path}.deprecationWarning"
    if text is None:
        return []
    if not version.get("deprecated"):
        return [invalid(place, text, "can only be set for deprecated versions")]
    texts = []
    if len(text.encode()) > 256:
        texts.append("must be <= 256 characters long")
    if not text:
        texts.append("must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            texts.append(
                "must only contain printable UTF-8 characters; non-printable character "
                f"found at index {len(text[:index].encode())}"
            )
            break
    return [invalid(place, text, one) for one in texts]


def _versions_problems(spec: Document) -> list[Problem]:
    versions = spec["versions"]
    names = [version.get("name") or "" for version in versions]
    problems: list[Problem] = []
    if len(set(names)) < len(names):
        text = "must contain unique version names"
        problems.append(invalid("spec.versions", internal_versions(versions), text))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        problems.append(invalid("spec.versions", internal_versions(versions), text))
    return problems


def _name_problems(names: Document, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for key in ("plural", "singular"):
        value = names.get(key) or ""
        if value and (wrong := dns_1035_problems(value)):
            problems.append(invalid(f"{path}.{key}", value, ",".join(wrong)))
    for key in ("kind", "listKind"):
        value = names.get(key) or ""
        if value and (wrong := dns_1035_problems(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            problems.append(invalid(f"{path}.{key}", value, text))
    problems += _each_name(names.get("shortNames"), f"{path}.shortNames")
    kind, list_kind = names.get("kind") or "", names.get("listKind") or ""
    if kind and kind == list_kind:
        text = "kind and listKind may not be the same"
        problems.append(invalid(f"{path}.listKind", list_kind, text))
    problems += _each_name(names.get("categories"), f"{path}.categories")
    return problems


def _each_name(values: list[str] | None, path: str) -> list[Problem]:
    return [
        invalid(f"{path}[{index}]", value, ",".join(wrong))
        for index, value in enumerate(values or ())
        if (wrong := dns_1035_problems(value))
    ]


def _column_problems(columns: Any, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, column in enumerate(columns or ()):
        place = f"{path}[{index}]"
        if not column.get("name"):
            problems.append(required(f"{place}.name"))
        kind, form = column.get("type") or "", column.get("format") or ""
        text = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            problems.append(required(f"{place}.type", text))
        elif kind not in _COLUMN_TYPES:
            problems.append(invalid(f"{place}.type", kind, text))
        if form and form not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            problems.append(invalid(f"{place}.format", form, text))
        path_text = column.get("jsonPath") or ""
        if not path_text:
            problems.append(required(f"{place}.JSONPath"))
        else:
            problems += _path_problems(path_text, f"{place}.JSONPath")
    return problems


def _path_problems(text: str, path: str) -> list[Problem]:
    if text.startswith("."):
        return []
    return [invalid(path, text, "must be a simple json path starting with .")]


def _subresource_problems(subresources: Document | None, path: str) -> list[Problem]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    problems: list[Problem] = []
    for key, part in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        text = scale.get(key) or ""
        place = f"{path}.scale.{key}"
        if not text:
            problems.append(required(place))
        elif wrong := _path_problems(text, place):
            problems += wrong
        elif not text.startswith(f".{part}."):
            problems.append(invalid(place, text, f"should be a json path under .{part}"))
    text = scale.get("labelSelectorPath") or ""
    place = f"{path}.scale.labelSelectorPath"
    if text and (wrong := _path_problems(text, place)):
        problems += wrong
    elif text and not text.startswith((".spec.", ".status.")):
        why = "should be a json path under either .spec or .status"
        problems.append(invalid(place, text, why))
    return problems


def _selectable_problems(fields: Any, schema: Any, path: str) -> list[Problem]:
    if schema is None:
        text = "may only be set when `version.schema.openAPIV3Schema` is not included"
        return [invalid(path, "", text)]
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            problems.append(required(place))
            continue
        steps = text.removeprefix(".").split(".")
        if not text.startswith("."):
            why = f"is an invalid path: expected [ or . but got: {steps[0]}"
            problems.append(invalid(place, text, why))
            continue
        found = _schema_at(schema, steps)
        if found is None:
            why = "is an invalid path: does not refer to a valid field"
            problems.append(invalid(place, text, why))
            continue
        if steps[0] == "metadata":
            problems.append(invalid(place, text, "must not point to fields in metadata"))
        if found.get("type") not in {"string", "boolean", "integer"}:
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields "
                "and strings with formats are allowed."
            )
            problems.append(invalid(place, text, why))
        if text in seen:
            problems.append(duplicate(place, text))
        seen.add(text)
    if len(seen) > _SELECTABLE_MAX:
        problems.append(too_many(path, len(seen), _SELECTABLE_MAX))
    return problems


def _schema_at(schema: Any, steps: list[str]) -> Any:
    for step in steps:
        schema = ((schema or {}).get("properties") or {}).get(step)
    return schema


def _conversion_problems(conversion: Document | None) -> list[Problem]:
    if conversion is None:
        return []
    path = "spec.conversion"
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    problems: list[Problem] = []
    if not strategy:
        problems.append(required(f"{path}.strategy"))
    elif strategy not in {"None", "Webhook"}:
        problems.append(not_supported(f"{path}.strategy", strategy, ("None", "Webhook")))
    if strategy == "Webhook":
        return problems + _webhook_problems(config, versions, path)
    text = "should not be set when strategy is not set to Webhook"
    if config is not None:
        problems.append(forbidden_field(f"{path}.webhookClientConfig", text))
    if versions:
        problems.append(forbidden_field(f"{path}.conversionReviewVersions", text))
    return problems


def _webhook_problems(config: Document | None, versions: list[str], path: str) -> list[Problem]:
    # Differs: URL and service are not validated, since no webhook is ever called.
    problems: list[Problem] = []
    if config is None:
        text = "required when strategy is set to Webhook"
        problems.append(required(f"{path}.webhookClientConfig", text))
    elif (config.get("url") is None) == (config.get("service") is None):
        text = "exactly one of url or service is required"
        problems.append(required(f"{path}.webhookClientConfig", text))
    if not versions:
        problems.append(required(f"{path}.conversionReviewVersions"))
    elif not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        problems.append(invalid(f"{path}.conversionReviewVersions", versions, text))
    return problems


def _immutable_problems(spec: Document, old: Document, document: Document) -> list[Problem]:
    conditions = dig(document, "status", "conditions") or ()
    is_established = any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )
    paths: list[tuple[str, ...]] = [("group",), ("names", "plural")]
    if is_established:
        paths = [("scope",), ("names", "kind"), *paths]
    return [
        invalid(f"spec.{'.'.join(path)}", dig(spec, *path), "field is immutable")
        for path in paths
        if dig(spec, *path) != dig(old, *path)
    ]


def _stored_problems(stored: list[str], versions: list[Document]) -> list[Problem]:
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    problems: list[Problem] = []
    left = {name: index for index, name in enumerate(stored)}
    for version in versions:
        name = version.get("name") or ""
        # Parity: the second occurrence of a duplicate name is not found.
        if left.pop(name, None) is None and version.get("storage"):
            problems.append(invalid(path, stored, f"must have the storage version {name}"))
    for name, index in left.items():
        text = (
            f"missing from spec.versions; {name} was previously a storage version, and must "
            f"remain in spec.versions until a storage migration ensures no data remains "
            f"persisted in {name} and removes {name} from status.storedVersions"
        )
        problems.append(invalid(f"{path}[{index}]", name, text))
    return problems


def _approval_problems(document: Document, old: Document | None) -> list[Problem]:
    group = dig(document, "spec", "group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    state = _approval(document)
    if old is not None and _approval(old) == state:
        return []
    path = f"metadata.annotations[{_APPROVED}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if state == "missing":
        text = f"protected groups must have approval annotation {go_quote(_APPROVED)}, {see}"
        return [required(path, text)]
    if state == "invalid":
        text = (
            f"protected groups must have approval annotation {go_quote(_APPROVED)} with either a "
            f'URL or a reason starting with "unapproved", {see}'
        )
        value = (metadata_of(document).get("annotations") or {}).get(_APPROVED)
        return [invalid(path, value, text)]
    return []


def _approval(document: Document) -> str:
    annotation = (metadata_of(document).get("annotations") or {}).get(_APPROVED) or ""
    if not annotation:
        return "missing"
    if annotation.startswith("unapproved"):
        return "bypassed"
    parts = urlsplit(annotation)
    return "approved" if parts.scheme and parts.netloc else "invalid"
