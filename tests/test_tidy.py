"""Checks over the tree itself: what no linter looks at.

Owns the rules about words, sizes and names of files. Never looks at behaviour.
"""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SIZE_BYTES_MAX = 1_000_000
GENERATED = {"build", "dist", "__pycache__"}

# Split, so that this file does not find itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.~$}*-])/(?:" + "|".join(["home", "root", "work", "Users"]) + ")/"
)
REGISTRY_HOST = re.compile(
    "|".join(
        re.escape(name + end)
        for name, end in [
            ("pypi", ".org"),
            ("pypi", ".python.org"),
            ("files.python", "hosted"),
            ("arti", "factory"),
            ("dev", "pi."),
            ("proxy.gol", "ang.org"),
            ("registry.npm", "js"),
            ("code", "artifact"),
        ]
    ),
    re.IGNORECASE,
)
INDEX_OPTION = re.compile("--(?:extra-)?" + "index-url|--trusted" + "-host|--find" + "-links")
MARKER = re.compile(r"\b(?:FIX" + r"ME|XX" + r"X|HA" + r"CK|TO" + r"DO)\b")
BANNED_WORD = re.compile(
    r"\b(?:clau" + r"de|anthro" + r"pic|chat" + r"gpt|open" + r"ai|sub" + r"agents?)\b",
    re.IGNORECASE,
)
# The file that resolves the pins has to name the options which keep addresses out of them.
OPTION_FREE = {"scripts/pins"}
MODULE_NAMES = {"util", "utils", "helper", "helpers", "manager", "common", "base", "misc"}
FRAGMENT = re.compile(r"(?:\d+|\+[a-z0-9-]+)\.(?:breaking|feature|bugfix|parity|doc)\.md")
BLANK_END = re.compile(r"[^\S\n]$", re.MULTILINE)
UNTIDY_FREE = (".jsonl", "LICENSE")
MAYBE_RELATIVE = re.compile(r"\bfrom[\s\\]*\.")
ADR = re.compile(r"(\d{4})-[a-z0-9-]+\.md")


@cache
def tree() -> tuple[Path, ...]:
    """Return the files of the repository, those not yet added included."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(git, cwd=ROOT, capture_output=True, check=True, text=True)
        names = [name for name in listed.stdout.split("\0") if name]
        paths = [ROOT / name for name in names]
    except (FileNotFoundError, subprocess.CalledProcessError):
        # An unpacked archive has no git directory. Hidden folders there are tools' and editors'.
        paths = [path for path in ROOT.rglob("*") if not ignored(path.relative_to(ROOT))]
    return tuple(sorted(path for path in paths if path.is_file()))


def ignored(path: Path) -> bool:
    return any(
        part in GENERATED or part.endswith(".egg-info") or (part.startswith(".") and part != ".ci")
        for part in path.parts[:-1]
    )


def texts() -> Iterator[tuple[str, str]]:
    for path in tree():
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8")


def hits(pattern: re.Pattern[str]) -> list[str]:
    """Return the lines that match; no pattern can tell a line's end from its newline."""
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        if pattern.search(text)
        for number, line in enumerate(text.split("\n"), start=1)
        if pattern.search(line)
    ]


def python_files() -> list[Path]:
    return [path for path in tree() if path.suffix == ".py"]


def test_the_tree_is_not_empty() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in tree()}
    assert {"pyproject.toml", "Makefile", "tests/test_tidy.py"} <= names


def test_no_path_of_one_machine() -> None:
    assert hits(MACHINE_PATH) == []


def test_no_host_of_a_package_registry() -> None:
    assert hits(REGISTRY_HOST) == []


def test_no_option_that_names_an_index() -> None:
    found = [hit for hit in hits(INDEX_OPTION) if hit.split(":")[0] not in OPTION_FREE]
    assert found == []


def test_no_banned_word() -> None:
    assert hits(BANNED_WORD) == []


def test_there_are_no_todo_markers() -> None:
    assert hits(MARKER) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        pytest.param(MACHINE_PATH, "cd " + "/ho" + "me/ada/kubesched", id="a home directory"),
        pytest.param(REGISTRY_HOST, "https://py" + "pi.org/simple", id="a registry"),
        pytest.param(INDEX_OPTION, "--index" + "-url x", id="an index option"),
        pytest.param(MARKER, "# TO" + "DO: later", id="a to-do without an issue"),
        pytest.param(BANNED_WORD, "Chat" + "GPT", id="a product name"),
    ],
)
def test_the_patterns_match_examples(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def test_no_file_is_too_large() -> None:
    large = {
        path.relative_to(ROOT).as_posix(): path.stat().st_size
        for path in tree()
        if path.stat().st_size > SIZE_BYTES_MAX
    }
    assert large == {}


def test_text_ends_cleanly() -> None:
    untidy = [hit for hit in hits(BLANK_END) if not hit.split(":")[0].endswith(UNTIDY_FREE)]
    assert untidy == []


def test_every_module_has_a_docstring() -> None:
    silent = []
    for path in python_files():
        name = path.relative_to(ROOT)
        # A test module is named after the behaviour it checks; an empty file has nothing to say.
        text = path.read_text(encoding="utf-8")
        if text.strip() and name.parts[0] != "tests" and not module_docstring(text):
            silent.append(name.as_posix())
    assert silent == []


def module_docstring(text: str) -> str | None:
    """Return the docstring without parsing the rest: there are many modules."""
    between = {tokenize.COMMENT, tokenize.NL}
    stream = tokenize.generate_tokens(StringIO(text).readline)
    tokens = (one for one in stream if one.type not in between)
    line = [one.string for one in takewhile(lambda one: one.type != tokenize.NEWLINE, tokens)]
    # Anything but a string at the start, a compound statement too, is no docstring.
    is_text = line[0].lstrip("rRuU")[:1] in {"'", '"'}
    return ast.get_docstring(ast.parse(" ".join(line))) if is_text else None


def test_no_module_has_a_vague_name() -> None:
    vague = [
        path.relative_to(ROOT).as_posix()
        for path in python_files()
        if path.stem in MODULE_NAMES or path.parent.name in MODULE_NAMES
    ]
    assert vague == []


def test_imports_are_absolute() -> None:
    relative = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
        for path in python_files()
        # Most modules have nothing that looks like one, and need no parser.
        if MAYBE_RELATIVE.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


@pytest.mark.parametrize(
    ("text", "docstring"),
    [
        ('"""What it is."""\n', "What it is."),
        ('#!/bin/sh\n\nr"""What it\nis."""  # so\nimport ast\n', "What it\nis."),
        ("'one ' 'text'\n", "one text"),
        ('""""""\nx = 1\n', ""),
        ('b"""What it is."""\n', None),
        ('f"""What it is."""\n', None),
        ('"""What it is.""".strip()\n', None),
        ('def it() -> None:\n    """What it is."""\n', None),
        ("# What it is.\n", None),
    ],
)
def test_a_docstring_is_the_first_thing_of_a_module(text: str, docstring: str | None) -> None:
    assert module_docstring(text) == docstring


def test_no_text_names_a_package_that_is_gone() -> None:
    packages = r"`(?:kubesched\.)?(?:app|engine|model|columns|web|sim)\.(?!kubernetes)[a-z_]+"
    found = hits(re.compile(packages))
    # Records and change fragments name what was.
    assert [hit for hit in found if not hit.startswith(("docs/adr/", "changes/"))] == []


def test_change_fragments_are_named_by_issue_and_kind() -> None:
    fragments = [path.name for path in tree() if path.parent == ROOT / "changes"]
    wrong = [name for name in fragments if name != "README.md" and not FRAGMENT.fullmatch(name)]
    assert wrong == []


def test_decisions_are_numbered_without_gaps_and_stay_short() -> None:
    records = [path for path in tree() if path.parent == ROOT / "docs" / "adr"]
    numbers = []
    for path in records:
        match = ADR.fullmatch(path.name)
        assert match, f"{path.name} is not named NNNN-title.md"
        numbers.append(int(match.group(1)))
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60, path.name
    assert numbers == list(range(1, len(numbers) + 1))


def test_pins_carry_hashes() -> None:
    for name in ("runtime", "dev"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        pins = re.findall(r"^(\S+)==\S+( \\)?$", text, re.MULTILINE)
        assert pins
        assert [package for package, continued in pins if not continued] == []
        # Each pin is followed by a hash, never by the next pin.
        assert len(re.findall(r"== ?\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text)) == len(pins)
