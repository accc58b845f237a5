"""Matching of node selectors. Expectations: component-helpers nodeaffinity, v0.36."""

import re
from typing import Any

import pytest

from kubesched.api.affinity import NodeSelector, PreferredSchedulingTerm
from kubesched.api.decode import decode_as
from kubesched.api.node_selectors import (
    compile_node_selector,
    compile_preferred_terms,
    node_selector_errors,
    preferred_terms_errors,
)


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


def term(*expressions: tuple[str, str, list[str]], fields: Any = ()) -> dict[str, Any]:
    def wire(parts: Any) -> list[dict[str, Any]]:
        return [{"key": key, "operator": op, "values": values} for key, op, values in parts]

    return {"matchExpressions": wire(expressions), "matchFields": wire(fields)}


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return decode_as(NodeSelector, {"nodeSelectorTerms": list(terms)})


def preferred(weight: int, preference: dict[str, Any]) -> PreferredSchedulingTerm:
    return decode_as(PreferredSchedulingTerm, {"weight": weight, "preference": preference})


@pytest.mark.parametrize(
    ("wire", "labels", "expected"),
    [
        pytest.param(selector(), {}, False, id="no terms"),
        pytest.param(selector({}), {}, False, id="an empty term"),
        pytest.param(selector(term(("a", "In", ["1", "2"]))), {"a": "2"}, True, id="in"),
        pytest.param(selector(term(("a", "NotIn", ["1"]))), {}, True, id="none of, and absent"),
        pytest.param(selector(term(("a", "Exists", []))), {"a": ""}, True, id="exists"),
        pytest.param(selector(term(("a", "DoesNotExist", []))), {"a": ""}, False, id="not absent"),
        pytest.param(selector(term(("a", "Gt", ["5"]))), {"a": "6"}, True, id="greater"),
        pytest.param(selector(term(("a", "Lt", ["5"]))), {"a": "05"}, False, id="not less"),
        pytest.param(selector(term(("a", "Gt", ["5"]))), {"a": "six"}, False, id="not a number"),
        pytest.param(
            selector(term(("a", "Exists", []), ("b", "Exists", []))), {"a": ""}, False, id="all"
        ),
        pytest.param(
            selector(term(("a", "Exists", [])), term(("b", "Exists", []))),
            {"b": ""},
            True,
            id="any",
        ),
        pytest.param(
            selector(term(("a", "Bad", [])), term(("b", "Exists", []))),
            {"a": "", "b": ""},
            True,
            id="a term in error does not spoil the others",
        ),
        pytest.param(selector(term(("a", "Gt", ["x"]))), {"a": "6"}, False, id="only an error"),
    ],
)
def test_node_selector_matches_labels(
    wire: NodeSelector, labels: dict[str, str], *, expected: bool
) -> None:
    assert compile_node_selector(wire).matches(labels, "n1") is expected


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        pytest.param([("metadata.name", "In", ["n1"])], "n1", True, id="named"),
        pytest.param([("metadata.name", "In", ["n1"])], "n2", False, id="another is named"),
        pytest.param([("metadata.name", "NotIn", ["n1"])], "n2", True, id="not excluded"),
        pytest.param([("metadata.name", "NotIn", ["n1"])], "n1", False, id="excluded"),
        pytest.param([("metadata.name", "In", ["n1"])], "", True, id="a node without fields"),
        pytest.param([("spec.x", "In", ["n1"])], "n1", False, id="an unknown field is empty"),
        pytest.param([("spec.x", "NotIn", ["n1"])], "n1", True, id="and so not this"),
    ],
)
def test_node_selector_matches_fields(fields: Any, name: str, *, expected: bool) -> None:
    assert compile_node_selector(selector(term(fields=fields))).matches({}, name) is expected


def test_labels_and_fields_must_both_match() -> None:
    both = term(("a", "Exists", []), fields=[("metadata.name", "In", ["n1"])])
    compiled = compile_node_selector(selector(both))
    assert compiled.matches({"a": ""}, "n1")
    assert not compiled.matches({"a": ""}, "n2")
    assert not compiled.matches({}, "n1")


NODE_OPERATORS = 'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


@pytest.mark.parametrize(
    ("wire", "errors"),
    [
        pytest.param(
            selector(term(("a", "Equals", ["x"]))),
            [
                (
                    "nodeSelectorTerms[0].matchExpressions[0].operator: "
                    f'Unsupported value: "Equals": {NODE_OPERATORS}'
                )
            ],
            id="an unknown operator",
        ),
        pytest.param(
            selector({}, term(("a", "In", []), ("a", "Gt", ["x"]))),
            [
                (
                    "nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: []: "
                    "for 'in', 'notin' operators, values set can't be empty"
                ),
                (
                    'nodeSelectorTerms[1].matchExpressions[1].values[0]: Invalid value: "x": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                ),
            ],
            id="several, the index counting empty terms",
        ),
        pytest.param(
            selector({"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            [
                (
                    "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: "
                    "for 'Gt', 'Lt' operators, exactly one value is required"
                )
            ],
            id="values that were never written are null",
        ),
        pytest.param(
            selector(term(fields=[("metadata.name", "Exists", []), ("a", "In", ["1", "2"])])),
            [
                (
                    "nodeSelectorTerms[0].matchFields[0].operator: "
                    'Unsupported value: "Exists": supported values: "In", "NotIn"'
                ),
                (
                    'nodeSelectorTerms[0].matchFields[1].values: Invalid value: ["1","2"]: '
                    "must have one element"
                ),
            ],
            id="fields",
        ),
        pytest.param(selector(term(("a", "Exists", []))), [], id="none"),
    ],
)
def test_node_selector_errors(wire: NodeSelector, errors: list[str]) -> None:
    assert node_selector_errors(wire) == errors
    assert list(compile_node_selector(wire).errors) == errors
    assert node_selector_errors(wire, "spec.x") == [f"spec.x.{error}" for error in errors]


def test_preferred_terms_add_up() -> None:
    terms = [
        preferred(5, term(("a", "Exists", []))),
        preferred(0, term(("a", "Bad", []))),
        preferred(7, {}),
        preferred(11, term(fields=[("metadata.name", "In", ["n1"])])),
    ]
    compiled = compile_preferred_terms(terms)
    assert compiled.score({"a": ""}, "n1") == 16
    assert compiled.score({"a": ""}, "n2") == 5
    assert compiled.score({}, "n2") == 0
    assert len(compiled.terms) == 2


def test_preferred_terms_report_all_errors() -> None:
    terms = [preferred(0, term(("a", "Bad", []))), preferred(1, term(("a", "Bad", [])))]
    expected = f'[1].matchExpressions[0].operator: Unsupported value: "Bad": {NODE_OPERATORS}'
    assert preferred_terms_errors(terms) == [expected]
    assert preferred_terms_errors(terms, "p") == [f"p{expected}"]
    with pytest.raises(ValueError, match=exactly(expected)):
        compile_preferred_terms(terms)


def test_equal_node_selectors_hash_alike() -> None:
    first, second = (compile_node_selector(selector(term(("a", "In", ["1"])))) for _ in range(2))
    assert len({first, second}) == 1
