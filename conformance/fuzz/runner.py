"""A run: generate cases, decide them on both sides in batches, shrink differences, report.

Owns the order of a run and the files it writes. Never changes a case except by shrinking it.
Upstream: none.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from conformance.fuzz import config_files, report
from conformance.fuzz.compare import differences
from conformance.fuzz.coverage import coverage
from conformance.fuzz.generate import cases as cases_module
from conformance.fuzz.generate.vocabulary import FAMILIES
from conformance.fuzz.shrink import shrink
from conformance.fuzz.sides import Oracle
from conformance.fuzz.verdict import Verdict, judge, recorded, signature

Obj = dict[str, Any]
BATCH = 120


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    seed: int = 1
    cases: int = 500
    start: int = 0
    only: tuple[int, ...] = ()
    families: tuple[str, ...] = FAMILIES
    shrink: bool = True
    findings: int = 5
    keep: Path | None = None
    command: tuple[str, ...] = field(default=("conformance/fuzz_parity.py",))


def generated(options: Options) -> Iterator[Obj]:
    """Yield the raw cases of a run."""
    indexes: Iterable[int] = options.only or range(options.start, options.start + options.cases)
    for index in indexes:
        # Families alternate over the whole list, so that an index always means the same case.
        if FAMILIES[index % len(FAMILIES)] in options.families:
            yield cases_module.case(options.seed, index)


def run_decisions(oracle: Oracle, options: Options) -> int:
    """Compare decisions on generated cases; return the exit status."""
    raw = list(generated(options))
    return finish(oracle, list(_judged(oracle, raw)), options)


def _judged(oracle: Oracle, raw: Sequence[Obj]) -> Iterator[Verdict]:
    progress = report.Progress(len(raw))
    done = found = 0
    for batch in _batches(raw):
        verdicts = judge_raw(oracle, batch)
        yield from verdicts
        done += len(batch)
        found += sum(v.differs for v in verdicts)
        progress.show(done, found)
    progress.end()


def judge_raw(oracle: Oracle, raw: Sequence[Obj]) -> list[Verdict]:
    """Store and judge raw cases; cases that the API server's code rejects are skipped."""
    stored = oracle.stored(raw)
    rejected = [
        Verdict(case, None, None, panic=f"not stored: {answer['panic']}")
        for case, answer in zip(raw, stored, strict=True)
        if "panic" in answer
    ]
    return [*judge(oracle, [one for one in stored if "panic" not in one]), *rejected]


def finish(oracle: Oracle, verdicts: list[Verdict], options: Options) -> int:
    """Print the findings and the table; return the exit status."""
    found = [v for v in verdicts if v.differs]
    kinds: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in found:
        kinds.setdefault(verdict.signature, []).append(verdict)
    for _, alike in sorted(kinds.items(), key=lambda item: -len(item[1]))[: options.findings]:
        show_finding(oracle, alike, options)
    for verdict in [v for v in verdicts if v.panic is not None][: options.findings]:
        print(f"oracle panic: {verdict.case['id']}: {verdict.panic}")
    print(report.summary(verdicts))
    if kinds:
        print(f"{len(found)} of {len(verdicts)} cases differ: {len(kinds)} kinds of differences")
    return 1 if found or not verdicts else 0


def show_finding(oracle: Oracle, alike: list[Verdict], options: Options) -> None:
    """Shrink the smallest case of a kind, print it and keep it."""
    smallest = min(alike, key=lambda verdict: len(verdict.case["objects"]))
    print(report.finding(smallest, repeat=repeat_command(smallest.case["id"], options)))
    print(f"  cases with the same difference: {len(alike)}")
    if not options.shrink:
        return
    small = shrunk(oracle, smallest)
    print(f"  smallest case with this difference ({len(small['objects'])} objects):")
    print(report.outline(small))
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        path = options.keep / f"{smallest.case['id'].replace(':', '-')}.jsonl"
        path.write_text(json.dumps(small) + "\n", encoding="utf-8")
        print(f"  saved as {path}")


def shrunk(oracle: Oracle, verdict: Verdict) -> Obj:
    """Return the smallest case found whose difference is of the same kind."""
    expected = verdict.signature

    def still_differs(candidates: list[Obj]) -> list[bool]:
        marked = [{**one, "id": f"try-{index}"} for index, one in enumerate(candidates)]
        return [signature(v.differences) == expected for v in judge(oracle, marked)]

    plain = {key: value for key, value in verdict.case.items() if key != "decision"}
    return {**shrink(plain, still_differs), "id": verdict.case["id"]}


def repeat_command(case_id: str, options: Options) -> str:
    """Return the command that repeats one case."""
    if not case_id.startswith("fuzz-"):
        return shlex.join(options.command)
    seed, _, index = case_id.rsplit("-", maxsplit=1)[1].partition(":")
    script = options.command[0]
    return shlex.join(["python", script, "--seed", seed, "--only", index])


def replay(oracle: Oracle, path: Path, options: Options) -> int:
    """Decide the cases of a file; also compare the oracle with recorded decisions."""
    cases = read_lines(path)
    bare = [one for one in cases if "decision" not in one]
    known = [one for one in cases if "decision" in one]
    disagreeing = _oracle_against_records(oracle, known)
    verdicts = recorded(known)
    for batch in _batches(bare):
        verdicts.extend(judge(oracle, batch))
    status = finish(oracle, verdicts, options)
    if known:
        agreeing = len(known) - disagreeing
        print(f"oracle: {agreeing} of {len(known)} recorded decisions reproduced")
    return 1 if status or disagreeing else 0


def _oracle_against_records(oracle: Oracle, known: Sequence[Obj]) -> int:
    disagreeing = 0
    for batch in _batches(known):
        undecided = [{k: v for k, v in one.items() if k != "decision"} for one in batch]
        for one, answer in zip(batch, oracle.decide(undecided), strict=True):
            decision = answer.get("decision")
            found = differences(one["decision"], decision) if decision else None
            if found is None or found:
                disagreeing += 1
                print(f"oracle differs from the record: {one['id']}: {found or answer}")
    return disagreeing


def save(oracle: Oracle, options: Options, prefix: Path) -> int:
    """Write stored cases and the oracle's decisions, and print what they cover."""
    prefix.mkdir(parents=True, exist_ok=True)
    pairs: list[tuple[str, Obj]] = []
    panics: Counter[str] = Counter()
    names = [prefix / f"{kind}-{options.seed}.jsonl" for kind in ("cases", "decisions")]
    with names[0].open("w", encoding="utf-8") as cases, names[1].open("w") as decisions:
        for batch in _batches(list(generated(options))):
            stored = [one for one in oracle.stored(batch) if "panic" not in one]
            for one, answer in zip(stored, oracle.decide(stored), strict=True):
                if answer.get("decision") is None:
                    panics[str(answer.get("panic"))[:200]] += 1
                    continue
                cases.write(json.dumps(one) + "\n")
                decisions.write(json.dumps(answer) + "\n")
                pairs.append((one["family"], answer["decision"]))
    print(report.coverage_table(coverage(pairs)))
    for text, number in panics.most_common():
        print(f"{number:6d}  panic {text}")
    print(f"{len(pairs)} cases written to {names[0]} and {names[1]}")
    return 0


def run_config(oracle: Oracle, cases: Sequence[Obj], options: Options) -> int:
    """Compare configuration files loaded on both sides; return the exit status."""
    verdicts: list[config_files.FileVerdict] = []
    for batch in _batches(cases):
        verdicts.extend(config_files.judge_files(batch, oracle.config(batch)))
    printed = 0
    for one in verdicts:
        good = one.effective_same if one.loads else one.reported and one.exact
        if not good and printed < options.findings:
            printed += 1
            print(f"--- {one.case['id']} ({one.expected['stage']})\n{one.case['text']}")
            expected = one.expected["error"] or one.expected["effective"]
            print(f"  kube-scheduler: {expected}")
            print(f"  kubesched:      {one.crash or one.error or one.effective}")
    counts = config_files.rates(verdicts)
    for name, (passed, total) in counts.items():
        share = f"{100 * passed / total:.2f} %" if total else "-"
        print(f"{name:10} {passed:6d} of {total:6d}  {share}")
    return 0 if verdicts and config_files.acceptable(counts) else 1


def read_lines(path: Path) -> list[Obj]:
    """Read a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _batches(cases: Sequence[Obj]) -> Iterator[list[Obj]]:
    pending = iter(cases)
    while batch := list(islice(pending, BATCH)):
        yield batch
