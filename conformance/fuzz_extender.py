"""Compare the decoding of random extender responses with kube-scheduler's.

Owns the command line and the texts: valid ones, unusual spelling, values of other types, broken
ones. The expected values come from Go's decoder over upstream's types, run by
`conformance/extender_answers/main.go`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from kubesched.extender import wire  # noqa: E402
from kubesched.golang.json_unmarshal import WireError  # noqa: E402

RECORDED = ROOT / "tests" / "unit" / "extender" / "recorded_answers.jsonl"
READERS: dict[str, Callable[[bytes], Any]] = {
    "filter": wire.decode_filter_result,
    "scores": wire.decode_host_priorities,
    "bind": wire.decode_binding_result,
    "preempt": wire.decode_preemption_result,
    "bind args": wire.decode_binding_args,
}
UNEXPECTED = (
    *("1", "-3", "1.5", "1e2", "0", "-0", "9223372036854775807", "9223372036854775808", "1" * 40),
    *('"x"', '"\\u00e9"', '"\\ud800"', '"\\ud83d\\ude00"', '""', "null", "true", "[]", "{}"),
    *("[null]", '["a",null]', '{"a":"b"}', '{"a":null}', '{"a":1}'),
)
TEXTS = ("", "null", " ", "[]", "{}", "1", '"x"', "tru", "-", "\n\t{}", "[1,", '{"a"', '{"a" 1}')
INSERTED = ('"', "{", "}", "x", "1", ",", "\\", ":", "nul", "\t", "\x01", "[", "-", ".", "e", "'")
NODE = '{"metadata":{"name":"n1"},"spec":{},"status":{}}'
SHOWN_MAX = 10
Make = Callable[[], str]


class Texts:
    """Generates texts from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def make(self, kind: str) -> str:
        """Return a text of a kind, valid or invalid."""
        text = getattr(self, f"_{kind.replace(' ', '_')}")()
        chance = self.rng.random()
        place = self.rng.randint(0, len(text))
        if chance < 0.6:
            return str(text)
        if chance < 0.7:
            return str(text[:place])
        if chance < 0.8:
            return f"{text}{self.rng.choice((' x', '}', 'null', chr(34), '1'))}"
        if chance < 0.9:
            return f"{text[:place]}{self.rng.choice(INSERTED)}{text[place:]}"
        return self.rng.choice(TEXTS)

    def _filter(self) -> str:
        names = self._or_unexpected(
            lambda: json.dumps(self.rng.sample("abc", self.rng.randint(0, 3)))
        )
        failed = self._or_unexpected(
            lambda: json.dumps(dict.fromkeys(self.rng.sample("abc", 2), "m"))
        )
        items = self._or_unexpected(lambda: f"[{NODE}]" if self.rng.random() < 0.5 else "[]")
        nodes = self._or_unexpected(lambda: self._object(items=items, metadata=lambda: "{}"))
        return self._object(
            Nodes=nodes,
            NodeNames=names,
            FailedNodes=failed,
            FailedAndUnresolvableNodes=failed,
            Error=self._text,
        )

    def _scores(self) -> str:
        return self._list(
            self._or_unexpected(lambda: self._object(Host=self._text, Score=self._number))
        )

    def _bind(self) -> str:
        return self._object(Error=self._text)

    def _bind_args(self) -> str:
        text = self._text
        return self._object(PodName=text, PodNamespace=text, PodUID=text, Node=text)

    def _preempt(self) -> str:
        pods = self._or_unexpected(
            lambda: self._list(self._or_unexpected(lambda: self._object(UID=self._text)))
        )
        victims = self._or_unexpected(
            lambda: self._object(Pods=pods, NumPDBViolations=self._number)
        )

        def by_node() -> str:
            pairs = (f'"n{number}":{victims()}' for number in range(self.rng.randint(0, 2)))
            return "{" + ",".join(pairs) + "}"

        return self._object(NodeNameToMetaVictims=self._or_unexpected(by_node))

    def _text(self) -> str:
        return self._or_unexpected(lambda: self.rng.choice(('"e"', '""', '"a b"')))()

    def _number(self) -> str:
        return self._or_unexpected(lambda: str(self.rng.randint(-5, 50)))()

    def _or_unexpected(self, make: Make) -> Make:
        return lambda: make() if self.rng.random() < 0.8 else self.rng.choice(UNEXPECTED)

    def _list(self, make: Make) -> str:
        return "[" + ",".join(make() for _ in range(self.rng.randint(0, 3))) + "]"

    def _object(self, **fields: Make) -> str:
        chosen = [name for name in fields if self.rng.random() < 0.7]
        pairs = [f'"{self._spelled(name)}":{fields[name]()}' for name in chosen]
        if self.rng.random() < 0.2:
            pairs.append('"other":[1,{"a":2}]')
        self.rng.shuffle(pairs)
        return "{" + ",".join(pairs) + "}"

    def _spelled(self, name: str) -> str:
        return self.rng.choice((name, name, name, name, name.lower(), name.upper(), f"{name}x"))


def ours(kind: str, text: str) -> tuple[Any, str]:
    """Decode a text with kubesched; return the value and the error."""
    try:
        return json.loads(wire.encode(READERS[kind](text.encode()))), ""
    except WireError as problem:
        return None, str(problem)


def comparable(value: Any) -> Any:
    """Return a value without opaque parts, and with one form of empty lists."""
    if isinstance(value, dict) and value.get("Nodes"):
        return {**value, "Nodes": len(value["Nodes"].get("items") or ())}
    return value or None


def upstream(cases: Sequence[tuple[str, str]]) -> list[tuple[Any, str]]:
    """Decode the texts with Go."""
    lines = "\n".join(json.dumps({"Kind": kind, "Text": text}) for kind, text in cases)
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "answers"
        command = ["go", "build", "-o", str(program), "./extender_answers"]
        subprocess.run(command, cwd=ROOT / "conformance", check=True)
        done = subprocess.run([program], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return [(result["value"], result["error"]) for result in results]


def record(cases: Sequence[tuple[str, str]], expected: Sequence[tuple[Any, str]]) -> None:
    """Record some texts of each kind for the unit tests."""
    counts: Counter[tuple[str, str]] = Counter()
    with RECORDED.open("w") as file:
        for (kind, text), (value, error) in zip(cases, expected, strict=True):
            key = kind, re.sub(r"'.*?'|\d+", "*", error)
            if len(text) > 200 or counts[key] >= (1 if error else 10):
                continue
            counts[key] += 1
            line = {"kind": kind, "text": text, "value": comparable(value), "error": error}
            file.write(json.dumps(line) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; return 1 if a text is decoded differently."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--write", action="store_true", help="record some texts for the unit tests")
    options = parser.parse_args(argv)
    texts, kinds = Texts(options.seed), list(READERS)
    drawn = (kinds[number % len(kinds)] for number in range(options.cases))
    cases = [(kind, texts.make(kind)) for kind in drawn]
    expected = upstream(cases)
    different = 0
    for (kind, text), (value, error) in zip(cases, expected, strict=True):
        our_value, our_error = ours(kind, text)
        if (comparable(our_value), our_error) == (comparable(value), error):
            continue
        different += 1
        if different <= SHOWN_MAX:
            print(f"{kind}: {text!r}\n  ours {our_error or our_value}\n  Go's {error or value}")
    if options.write:
        record(cases, expected)
    print(f"{options.cases} extender responses: {different} decoded differently")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
