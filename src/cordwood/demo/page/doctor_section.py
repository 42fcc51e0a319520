"""The last section of the demo's page: what the doctor said, what was changed, and what came of it."""

from collections.abc import Iterator, Sequence

from cordwood.common.html import safe
from cordwood.common.numbers import milliseconds, percent
from cordwood.demo.page.drawing import stacked_bar
from cordwood.demo.page.parts import section, typed
from cordwood.demo.report import Doctored
from cordwood.demo.terminal.text import word
from cordwood.doctor import PHASE_NAMES, PHASES, legend


def doctor_section(doctored: Doctored) -> Iterator[str]:
    """Sick, advised, cured, and compared."""
    yield section("6", "The doctor: found, mended as told, and compared")
    yield (
        "<p>A training script as people write it: a dataset that opens, resizes and normalises a JPEG file whenever it "
        "is asked for one. The doctor runs it, finds what costs most, and tries the cure before it speaks of it.</p>\n"
    )
    yield _transcript([f"$ {doctored.before_command}", doctored.before, doctored.finding])
    if not doctored.has_advice:
        yield "<p>It had no advice this time, so there was nothing to follow: the machine may have been too busy for a "
        yield "trial to be clear.</p>\n"
        yield _visits({"before": (sum(doctored.before_phases.values()), doctored.before_phases)})
        yield '<p><a href="doctor/before.html">Its whole report</a></p>\n</section>\n'
        return
    yield "<p>Its advice, followed to the letter:</p>\n"
    yield _transcript(
        [
            *([f"$ {doctored.packing}"] if doctored.packing else []),
            f"{doctored.where}:",
            *[f"- {line}" for line in doctored.removed],
            *[f"+ {line}" for line in doctored.lines],
        ]
    )
    if doctored.before_ms is not None and doctored.after_ms is not None:
        yield "<p>A step before and after, as the comparison below has them, on the same scale:</p>\n"
        visits = {"before": (doctored.before_ms, doctored.before_phases)}
        yield _visits(visits | {"after": (doctored.after_ms, doctored.after_phases)})
    yield _transcript(
        [
            f"$ {doctored.after_command}",
            doctored.after,
            "",
            f"$ {doctored.compare_command}",
            *doctored.compared,
        ]
    )
    yield '<p class="quiet">The verdict tells the mean of all steps. The comparison, and so the picture, tells the '
    yield "median of the means of stretches of the run, with what the first batch of an epoch adds, so that a hiccup "
    yield "does not count; the parts of the bars are shares of all steps.</p>\n"
    yield f"<p>Same batches before and after, bit for bit: {word(doctored.is_same)}. "
    yield 'The whole reports: <a href="doctor/before.html">before</a>, <a href="doctor/after.html">after</a>.</p>\n'
    yield "</section>\n"


def _visits(visits: dict[str, tuple[float, dict[str, float]]]) -> str:
    """A bar for each visit, as long as a step took, in parts as large as the phases' shares."""
    whole = max(step for step, _ in visits.values())
    if not whole:
        return ""
    parts = ['<div class="visits">']
    for name, (step, phases) in visits.items():
        shares = {phase: ms / sum(phases.values()) for phase, ms in phases.items()}
        told = {phase: f"{PHASE_NAMES[phase]}: {percent(share)}" for phase, share in shares.items()}
        label = f"A step {name}: {milliseconds(step)}; " + ", ".join(told.values())
        lengths = {phase: share * step for phase, share in shares.items()}
        parts.append(f"<div>{name}</div>{stacked_bar(lengths, whole, told, label)}")
        parts.append(f'<div class="figure">{milliseconds(step)}</div>')
    shown = [phase for phase in PHASES if any(phase in phases for _, phases in visits.values())]
    return "".join([*parts, "</div>\n", legend(shown), "\n"])


def _transcript(lines: Sequence[str]) -> str:
    return f'<pre tabindex="0" aria-label="transcript"><code>{chr(10).join(map(_line, lines))}</code></pre>\n'


def _line(line: str) -> str:
    kinds = {"$ ": 'span class="command"', "- ": "del", "+ ": "ins"}
    kind = kinds.get(line[:2])
    if kind is None:
        return safe(line)
    return f"<{kind}>{typed(line) if line[:2] == '$ ' else safe(line)}</{kind.split()[0]}>"
