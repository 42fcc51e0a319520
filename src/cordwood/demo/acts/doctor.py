"""The last act: follows the doctor's advice on a script to the letter, and measures the result.

`starved.py` is a training script as people write it; it becomes ``train.py`` in a folder of its own. The doctor runs
it, the command and the lines of its finding are taken out of its report as they are printed there, run and put into the
script, the doctor runs that, and ``cordwood doctor compare`` says whether the promise was kept. Every command is a
process of its own, as in a shell.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from cordwood.common import PACKAGE
from cordwood.demo.acts.kept import Progress, one_thread, same_bits
from cordwood.demo.report import Doctored
from cordwood.doctor import Report, compare, gain, place_of
from cordwood.errors import DoctorError
from cordwood.feed import Loader
from cordwood.store import open as open_store

SCRIPT = PACKAGE / "demo" / "starved.py"
NAME = "train.py"
UNCHANGED = "train-as-it-was.py"
RULE = "cacheable-preprocessing"
SECONDS = 8.0  # that a rule of the doctor may spend on trials: the demo is to be over soon
BATCH = 8
TITLE = "asking the doctor"

_COMMAND = "cordwood "
_WHERE = re.compile(r"^# (?P<where>in .+, in place of lines? (?P<first>\d+)(?:-(?P<last>\d+))?):$", re.MULTILINE)
_STORE = re.compile(r'cw\.open\("(?P<name>[^"]+)"\)')
_FINE = (0, 1)  # exit codes: nothing to change, or something


@dataclass(frozen=True)
class Advice:
    """What the text of a finding says: a command for a shell, and lines in place of others."""

    command: str  # empty if the lines do everything
    where: str
    first: int
    last: int
    lines: tuple[str, ...]
    store: str  # that they read


def close_the_loop(folder: Path, progress: Progress) -> Doctored:
    """Let the doctor see the script in ``folder``, follow its advice, and let it see the script again.

    The script's images are in the folder ``images`` beside ``folder``.
    """
    folder.mkdir()
    script, unchanged = folder / NAME, folder / UNCHANGED
    for path in (script, unchanged):
        path.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    first_command, before = examine(folder, "before", SECONDS)
    progress(TITLE, 1, 4)
    found = next((finding for finding in before.findings if finding["rule"] == RULE), None)
    if found is None:
        progress(TITLE, 4, 4)
        return Doctored(folder, first_command, before.verdict, phases_of(before), _why_silent(before))

    advice = read_advice(found["fix"])
    if advice.command:
        run(advice.command, folder)
    removed, changed = apply(advice, script.read_text(encoding="utf-8"))
    script.write_text(changed, encoding="utf-8")
    progress(TITLE, 2, 4)
    second_command, after = examine(folder, "after", SECONDS)
    progress(TITLE, 3, 4)
    command = "cordwood doctor compare before.json after.json"
    told = run(command, folder, fine=_FINE).splitlines()
    comparison = compare(before, after)
    same = same_batches(unchanged, folder / advice.store)
    progress(TITLE, 4, 4)
    return Doctored(
        folder,
        first_command,
        before.verdict,
        phases_of(before),
        f"{RULE} at {place_of(found, before.document['folder'])} {gain(found)}",
        advice.command,
        advice.where,
        removed,
        advice.lines,
        second_command,
        after.verdict,
        phases_of(after),
        command,
        [told[0], *[line for line in told if line.startswith("predicted ")]],
        comparison.before_ms,
        comparison.after_ms,
        same,
        comparison.verdict in ("faster", "slower"),
    )


def examine(folder: Path, name: str, seconds: float) -> tuple[str, Report]:
    """Run the script under the doctor; the command, and its report, which is left there for people, too."""
    options = ["--seconds", f"{seconds:g}", "--json", f"{name}.json", "--html", f"{name}.html"]
    command = shlex.join(["cordwood", "doctor", *options, NAME])
    run(command, folder, fine=_FINE, makes=folder / f"{name}.json")
    return command, Report.load(folder / f"{name}.json")


def run(command: str, folder: Path, *, fine: Sequence[int] = (0,), makes: Path | None = None) -> str:
    """Run a ``cordwood`` command in a folder; what it writes to stdout.

    A file that it makes is looked for, since Python itself ends with one of the doctor's exit codes where it fails.
    """
    if not command.startswith(_COMMAND):
        raise DoctorError(f"a command that begins with `{_COMMAND.strip()}` was expected, not: {command}")
    # The `cordwood` of this very Python, wherever that is. As with the installed command, the current folder does not
    # get into the module path by itself.
    words = [sys.executable, "-P", "-m", *shlex.split(command)]
    done = subprocess.run(  # noqa: S603 - our own Python and our own commands
        words,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    missed = makes is not None and not makes.is_file()
    if done.returncode not in fine or missed:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        what = f"{makes} was not made: " if missed else ""
        raise DoctorError(
            f"{what}`{command}` in {folder} ended with exit code {done.returncode}; it said last:\n{last}"
        )
    return done.stdout


def read_advice(fix: str) -> Advice:
    """What a finding says to do, from its text alone."""
    place, store = _WHERE.search(fix), _STORE.search(fix)
    if place is None or store is None:
        raise DoctorError(f"the finding does not say which lines to change, or which store to read; it says:\n{fix}")
    first = int(place["first"])
    return Advice(
        command=fix[: place.start()].strip(),
        where=place["where"],
        first=first,
        last=int(place["last"] or first),
        lines=tuple(fix[place.end() :].strip("\n").split("\n")),
        store=store["name"],
    )


def apply(advice: Advice, script: str) -> tuple[tuple[str, ...], str]:
    """The lines that were there, and the script with the others in their place, as far to the right."""
    lines = script.splitlines()
    old = lines[advice.first - 1 : advice.last]
    margin = old[0][: len(old[0]) - len(old[0].lstrip())]
    lines[advice.first - 1 : advice.last] = [f"{margin}{line}" if line else "" for line in advice.lines]
    return tuple(line.removeprefix(margin) for line in old), "\n".join(lines) + "\n"


def same_batches(script: Path, store: Path) -> bool:
    """Whether the store gives the batches of the script's own dataset: of as many parts, equal in every bit."""
    files = DataLoader(runpy.run_path(str(script))["Photographs"](), BATCH)
    packed = Loader(open_store(store), BATCH)
    if len(files) != len(packed):
        return False
    with one_thread():  # as in the script
        return all(_same(one, other) for one, other in zip(files, packed, strict=True))


def _same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(same_bits(a, b) for a, b in zip(one, other, strict=True))


def phases_of(report: Report) -> dict[str, float]:
    """The mean milliseconds of each part of a step; none where there was no step to measure."""
    phases = report.document["phases"] or {}
    return {name: phase["mean_ms"] for name, phase in phases.items() if phase["mean_ms"]}


def _why_silent(report: Report) -> str:
    """What became of the rule that would have known what to do."""
    for status, rules in report.document["rules"].items():
        for rule in rules:
            if rule["rule"] == RULE:
                return f"{RULE} {status}: {rule['why']}" if rule["why"] else f"{RULE} {status}"
    return f"{RULE} did not run"
