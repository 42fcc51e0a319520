"""The benchmark of the codecs: every row of what they must reach, rivals in the same run, one command.

    cordwood bench codecs                  # all of it: writes benchmarks/results/codecs.json and docs/benchmarks.md
    cordwood bench codecs --quick          # a look in a minute or two; writes nothing unless told where
    cordwood bench codecs --only weights   # parts whose title or goals contain the word

What the codecs must reach is in `goals.py`; a part of the run is a module with a title, its goals' keys and `measure`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import batch_rows, encode_rows, integer_rows, photo_rows, weight_rows
from benchmarks.environment import environment, load
from benchmarks.goals import GOALS
from benchmarks.harness import MismatchError, UnavailableError
from benchmarks.outcome import Outcome, Settings
from benchmarks.report import to_markdown, to_terminal

ROOT = Path(__file__).resolve().parent.parent
PARTS = (photo_rows, batch_rows, weight_rows, integer_rows, encode_rows)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="cordwood bench codecs", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples and rounds")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="parts whose title or goals contain it"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the results")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write the page")
    parser.add_argument(
        "--cache", type=Path, default=ROOT / ".bench-cache", metavar="DIR", help="for downloaded wheels"
    )
    options = parser.parse_args(argv)
    parts = chosen_parts(options.only)
    if not parts:
        parser.error(f"no part has {' or '.join(options.only)} in its title or goals")
    complete = not options.quick and not options.only
    json_file = options.json or (ROOT / "benchmarks" / "results" / "codecs.json" if complete else None)
    page = options.markdown or (ROOT / "docs" / "benchmarks.md" if complete else None)
    words = [*(["--quick"] if options.quick else []), *(f"--only {word}" for word in options.only)]
    command = " ".join(["cordwood bench codecs", *words])
    try:
        result = run(parts, Settings.choose(options.cache, quick=options.quick), command)
    except MismatchError as error:
        print(f"wrong result, nothing to report: {error}", file=sys.stderr)
        return 1
    print(to_terminal(result))
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(result, indent=1) + "\n")
    if page:
        page.write_text(to_markdown(result))
    return int(any(goal["verdict"] == "missed" for goal in result["goals"]))


def chosen_parts(words: Sequence[str]) -> list[ModuleType]:
    """All parts, or those that one of the words occurs in."""
    return [part for part in PARTS if not words or any(w.lower() in f"{part.TITLE} {part.KEYS}".lower() for w in words)]


def run(parts: Sequence[ModuleType], settings: Settings, command: str) -> dict[str, Any]:
    """Measure part after part. One that lacks something from outside says so, and the rest still runs."""
    facts = environment(ROOT)
    start = time.monotonic()
    outcome = Outcome()
    for part in parts:
        print(f"measuring: {part.TITLE} ...", file=sys.stderr, flush=True)
        try:
            outcome.absorb(part.measure(settings))
        except UnavailableError as reason:
            outcome.absorb(Outcome.unavailable(part.TITLE, part.KEYS, str(reason)))
    facts["load after"] = load()
    keys = {key for part in parts for key in part.KEYS}
    return {
        "command": command,
        "quick": settings.quick,
        "rounds": settings.rounds,
        "minutes": (time.monotonic() - start) / 60,
        "environment": facts,
        "goals": [judged(goal.key, outcome) for goal in GOALS if goal.key in keys],
        "tables": [table.to_json() for table in outcome.tables],
    }


def judged(key: str, outcome: Outcome) -> dict[str, Any]:
    """One goal with what was measured and the verdict."""
    goal = next(goal for goal in GOALS if goal.key == key)
    spread = outcome.measured.get(key)
    return {
        "key": key,
        "sense": goal.sense,
        "must": goal.must,
        "aim": goal.aim,
        "measured": vars(spread) if spread else None,
        "verdict": goal.verdict(spread.median if spread else None),
        "reason": outcome.reasons.get(key),
    }


if __name__ == "__main__":
    sys.exit(main())
