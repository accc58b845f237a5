import re

from kubesched.simulate.report import capacity_json, compare, comparison_json, simulation_json
from tests.unit.cli.running import ROOT
from tests.unit.simulate.small_clusters import capacity_of, node, pod, simulated

DOCUMENT = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")


def named(value: object, path: str = "") -> set[str]:
    """Return the names of fields, except those of maps with keys of the user."""
    if isinstance(value, list):
        return set().union(*(named(part, path) for part in value))
    if not isinstance(value, dict):
        return set()
    if path in ("reasons", "byNode", "resources", "zones", "allocatable"):
        return set().union(*(named(part) for part in value.values()))
    if path in ("before", "after") and "resources" not in value:
        return set()
    return set(value).union(*(named(part, key) for key, part in value.items()))


def test_every_field_of_the_json_is_documented() -> None:
    cluster = [
        node("n", "2", zone="a"),
        pod("low", on="n", owner="ReplicaSet/low"),
        pod("big", "2", priority=7),
    ]
    run = simulated(*cluster)
    fields = named(simulation_json(run)) | named(comparison_json(compare(("a", "b"), (run, run))))
    fields |= named(capacity_json(capacity_of(cluster[:2], pod("p", priority=1))))
    assert {"pod", "victims", "recreatedAs", "stop", "emptyNodes", "measures"} <= fields
    documented = set(re.findall(r"`(\w+)(?:\[\])?`", DOCUMENT))
    assert fields - documented == set()


def test_the_library_example_runs() -> None:
    example = DOCUMENT.split("```python\n")[1].split("```")[0]
    example = example.replace('"examples/', f'"{ROOT}/examples/')
    names: dict[str, object] = {}
    exec(compile(example, "docs/simulate.md", "exec"), names)
    assert len(names["run"].placements) > 0  # type: ignore[attr-defined]  # made by the example
