"""Label selectors over the pods' shared vocabulary.

Owns metav1.LabelSelector drafts. Never guarantees a match.
Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj

VALUES: dict[str, tuple[str, ...]] = {
    "app": words.APPS,
    "tier": words.TIERS,
    "version": words.VERSIONS,
    "pod-template-hash": words.HASHES,
    "canary": ("", "x"),
}


def pod_selector(draw: Draw, like: dict[str, str] | None = None) -> Obj | None:
    """Return a selector over pod labels; `like` makes a match with those labels likely."""
    kind = draw.weighted([("labels", 45), ("expressions", 40), ("both", 8), ("all", 4), ("nil", 2)])
    if kind == "nil":
        return None
    if kind == "all":
        return {}
    made: Obj = {}
    if kind in ("labels", "both"):
        made["matchLabels"] = _match_labels(draw, like)
    if kind in ("expressions", "both"):
        made["matchExpressions"] = [_expression(draw) for _ in range(draw.number(1, 2))]
    return made


def namespace_selector(draw: Draw) -> Obj:
    """Return a selector over namespace labels."""
    options: list[Obj] = [
        {},
        {"matchLabels": {"env": "prod"}},
        {"matchLabels": {"team": "a"}},
        {"matchLabels": {"none": "x"}},
        {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "dev"]}]},
        {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
        {"matchExpressions": [{"key": "extra", "operator": "Exists"}]},
        {"matchLabels": {"kubernetes.io/metadata.name": "dev"}},
    ]
    return draw.pick(options)


def _match_labels(draw: Draw, like: dict[str, str] | None) -> dict[str, str]:
    if like and draw.chance(0.75):
        keys = draw.some(sorted(like), 1, 2)
        return {key: like[key] for key in keys}
    return {"app": draw.pick(words.APPS)}


def _expression(draw: Draw) -> Obj:
    key = draw.weighted(
        [("app", 10), ("tier", 6), ("version", 2), ("canary", 2), ("pod-template-hash", 1)]
    )
    operator = draw.weighted([("In", 4), ("Exists", 3), ("NotIn", 2), ("DoesNotExist", 1.5)])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(VALUES[key], 1, 3)}
