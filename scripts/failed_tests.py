"""Print the tests that failed in the last pytest run, one per line."""

import json
from pathlib import Path

_CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "v" / "cache" / "lastfailed"


def main() -> None:
    """Read pytest's cache of failed tests."""
    failed = json.loads(_CACHE.read_text(encoding="utf-8")) if _CACHE.is_file() else {}
    for test in sorted(failed):
        print(test)


if __name__ == "__main__":
    main()
