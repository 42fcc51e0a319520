"""A benchmark is a suite of parts, run by one command: options, the parts one after the other, verdicts, result files.

    main(Suite("codecs", __doc__, (photo_rows, weight_rows)), argv)

A part is a module with a title, its goals' keys and `measure`. What must be reached is in `goals.py`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.harness.environment import environment, load, wait_for_quiet
from benchmarks.harness.goals import GOALS
from benchmarks.harness.outcome import Outcome, Settings
from benchmarks.harness.report import to_markdown, to_terminal, write_page
from benchmarks.harness.timing import MismatchError, UnavailableError

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Suite:
    """The word on the command line, what it measures, and its parts in the order in which they run."""

    name: str
    description: str
    parts: tuple[ModuleType, ...]
    takes_revision: bool = False  # another version of the package can be measured in the same run

    def chosen(self, words: Sequence[str]) -> list[ModuleType]:
        """All parts, or those that one of the words occurs in."""
        return [
            part
            for part in self.parts
            if not words or any(word.lower() in f"{part.TITLE} {part.KEYS}".lower() for word in words)
        ]


def main(suite: Suite, argv: Sequence[str] | None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    parser = argparse.ArgumentParser(
        prog=f"cordwood bench {suite.name}", description=suite.description.partition("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples and rounds")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="parts whose title or goals contain it"
    )
    parser.add_argument(
        "--again", action="store_true", help="with --only: put these parts in place of the recorded ones, and say so"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the results")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write the page of this run")
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / ".bench-cache",
        metavar="DIR",
        help="for downloaded wheels, and on the disk that is measured",
    )
    if suite.takes_revision:
        parser.add_argument("--against", metavar="REV", help="a git revision to build, and to compare speeds with")
    options = parser.parse_args(argv)
    against: str | None = getattr(options, "against", None)
    parts = suite.chosen(options.only)
    if not parts:
        titles = "; ".join(part.TITLE for part in suite.parts)
        parser.error(f"no part has {' or '.join(options.only)} in its title or goals; the titles are: {titles}")
    if options.again and (options.quick or not options.only or options.json):
        parser.error("--again records some parts anew: it goes with --only, and not with --quick or --json")
    words = [*(["--quick"] if options.quick else []), *(f"--only {word}" for word in options.only)]
    words += [f"--against {against}"] if against else []
    command = " ".join([f"cordwood bench {suite.name}", *words])
    if not options.quick:
        wait_for_quiet()
    try:
        result = run(parts, Settings.choose(options.cache, quick=options.quick, against=against), command)
    except MismatchError as error:
        print(f"wrong result, nothing to report: {error}", file=sys.stderr)
        return 1
    print(to_terminal(result))
    if options.again:
        recorded = json.loads((ROOT / "benchmarks" / "results" / f"{suite.name}.json").read_text())
        keep(suite.name, renewed(recorded, result), None, options.markdown, complete=True)
        return int(any(goal["verdict"] == "missed" for goal in result["goals"]))
    keep(suite.name, result, options.json, options.markdown, complete=not options.quick and not options.only)
    return int(any(goal["verdict"] == "missed" for goal in result["goals"]))


def renewed(recorded: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """A recorded result with the parts of a later run in their places; its facts say which, when, and by what code."""
    tables = {table["title"]: table for table in result["tables"]}
    goals = {goal["key"]: goal for goal in result["goals"]}
    unknown = tables.keys() - {table["title"] for table in recorded["tables"]}
    if unknown:
        raise MismatchError(f"the recorded result has no table {' or '.join(sorted(unknown))}: record all of it anew")
    facts = result["environment"]
    when = f"{facts['date']}, commit {facts['commit']}, load before {facts['load before']}"
    return recorded | {
        "tables": [tables.get(table["title"], table) for table in recorded["tables"]],
        "goals": [goals.get(goal["key"], goal) for goal in recorded["goals"]],
        "environment": recorded["environment"] | {f"measured again: {'; '.join(tables)}": when},
    }


def keep(name: str, result: dict[str, Any], json_file: Path | None, page: Path | None, *, complete: bool) -> None:
    """Write the files that were asked for; a complete run also takes its place among the results and on their page."""
    results = ROOT / "benchmarks" / "results"
    if json_file or complete:
        target = json_file or results / f"{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(result, indent=1) + "\n")
    if page:
        page.write_text(to_markdown({name: result}))
    elif complete and not json_file:
        write_page(results, ROOT / "docs" / "benchmarks.md")


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
