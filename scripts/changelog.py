"""Moves the fragments of changes/ into CHANGELOG.md.

python scripts/changelog.py VERSION DATE
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- versions -->\n"
HEADINGS = {
    "breaking": "Breaking",
    "feature": "New",
    "parity": "Parity with kube-scheduler",
    "bugfix": "Fixed",
    "doc": "Documentation",
}


def main(arguments: list[str] | None = None) -> int:
    """Write the entry of one version and remove its fragments."""
    parser = argparse.ArgumentParser(description="Move changes/ into CHANGELOG.md.")
    parser.add_argument("version")
    parser.add_argument("date", help="date of the version, such as 2026-12-01")
    options = parser.parse_args(arguments)

    fragments = sorted(path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md")
    if not fragments:
        print("changes/ has no fragments", file=sys.stderr)
        return 1
    changelog = ROOT / "CHANGELOG.md"
    before, mark, after = changelog.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        print(f"CHANGELOG.md lacks the line {MARK.strip()}", file=sys.stderr)
        return 1
    entry = version_entry(options.version, options.date, fragments)
    changelog.write_text(f"{before}{mark}\n{entry}{after}", encoding="utf-8")
    for path in fragments:
        path.unlink()
    return 0


def version_entry(version: str, date: str, fragments: list[Path]) -> str:
    """Return the entry of a version: a list for each kind that has fragments."""
    parts = [f"## {version} ({date})\n"]
    for kind, heading in HEADINGS.items():
        texts = [
            " ".join(path.read_text(encoding="utf-8").split())
            for path in fragments
            if path.name.split(".")[-2] == kind
        ]
        if texts:
            parts.append(f"### {heading}\n\n" + "".join(f"- {text}\n" for text in texts))
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
