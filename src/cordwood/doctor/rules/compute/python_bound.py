"""``python-bound``: steps that spend their time in Python, between operations, and the loop that causes it."""

from collections import defaultdict
from dataclasses import dataclass
from types import CodeType

import numpy as np

from cordwood.common.numbers import milliseconds, percent
from cordwood.doctor.code.python_loops import Line, LoopTime, border_lines, find_loops, plain_lines
from cordwood.doctor.evidence.evidence import PHASES, Evidence, StepTimes
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, CodeLine, Detail, Finding, Rule
from cordwood.doctor.evidence.places import is_users, place_of
from cordwood.doctor.evidence.stacks import Stacks
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.replay.loop_rounds import rounds_at_once, split_into_rounds
from cordwood.doctor.replay.op_work import work_at_once, work_times
from cordwood.doctor.replay.replay import op_times

_CALLS_SHARE = 0.30  # of a step, where there is no loop to blame
_OTHER_SHARE = 0.30  # of a step that is neither data nor model
_LOOP_SHARE = 0.10
_OWN_SHARE = 0.7  # of a loop without operations: less, and the work is in functions that it calls
_LOOP_PART = 0.1  # of the plain lines around a loop: less, and it is not the loop that they are there for
_MOST_FUNCTIONS = 10
_MAKING = ("aten::lift_fresh", "aten::detach", "aten::_to_copy", "aten::alias")  # what torch.tensor() comes down to

_TAKEN = "aten::_local_scalar_dense"  # what .item() comes down to
_BESIDE = (
    "# do it in every so many steps, in a thread of its own, or after training\n"
    "# (do batches come from here? with cw.diagnose(loader=batches) as d: ... counts it as waiting for data)"
)
_AT_ONCE = "out = x * w    # not: for i in range(n): out[i] = x[i] * w[i]"
_AT_ONCE_TAKEN = (
    "right = (predicted == labels).sum().item()\n"
    "# not: for i in range(n): right += predicted[i].item() == labels[i].item()"
)


class PythonBound(Rule):
    """Sets the time of operations against the time of the steps, and finds loops by stack samples."""

    id = "python-bound"
    title = "Python between the operations takes the time"
    measures = (
        "Stack samples tell which loops of the user's code a step spends its time in; the operations that they call "
        "are known from one step that was written down, and replayed. It speaks of a loop that takes 10% of a step or "
        "more and whose rounds work on different parts of the same tensor without needing each other, or that computes "
        "in plain Python itself. What the calls of all operations take, measured with two elements along each axis, is "
        "information, from 30% of a step on; so is what a step does beside data and model (logging, files, Python "
        "that waits), with the line that most of it is spent in."
    )
    costs = (
        "An operation on a few elements takes microseconds to call and nanoseconds to do; a loop over elements, rows "
        "or samples pays the call each time, and once more in the backward pass."
    )
    wrong = (
        "Small models are bound by Python without anybody's fault: without a loop to blame that is information. Loops "
        "whose rounds need each other (recurrent cells, layers, rollouts), loops over parameters, and loops that call "
        "the model are left alone. What is promised is the loop's time without the work of its operations: the most "
        "that doing all rounds at once can save."
    )
    cure = (
        "Do all rounds at once: `out = x * w` in place of `for i in range(n): out[i] = x[i] * w[i]`; "
        "`F.mse_loss(out, y, reduction='none').mean(1)` in place of a loss for each sample; `torch.cdist`, `einsum`, "
        "`torch.vmap`. Where the model itself is small: a larger batch, or `torch.compile`. "
        "`cordwood doctor --pstats FILE` writes all samples for snakeviz."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps()
        stacks: Stacks = evidence.need("stacks")
        tape: Tape = evidence.need("tape")
        work = _Work(tape, steps)
        # Medians: what happens in some steps only, such as validation, is not what a loop is a part of.
        busy = steps.median_ms - _typical(steps, "wait") - _typical(steps, "transfer")
        borders = border_lines(stacks, evidence.modules, evidence.loaders)
        seen = _StepEvidence(steps, stacks, work, borders, busy)
        findings: list[Finding] = []
        told: list[LoopTime] = []
        # The steps that were sampled may have been slower or faster than others: all samples make one mean step.
        for loop in find_loops(stacks, borders, busy):
            if not any(loop.shares_time_with(other) for other in told):
                finding = _judged(loop, seen)
                if finding is not None:
                    findings.append(finding)
                    told.append(loop)
        # Calls that take longer when replayed than all of a step but its waiting show a busy machine, and nothing else.
        if not findings and _CALLS_SHARE * steps.median_ms <= work.calls <= busy:
            findings.append(_without_culprit(seen))
        if not told and steps.phase_share("other") >= _OTHER_SHARE:
            findings += _beside(seen)
        return findings


@dataclass(frozen=True)
class _StepEvidence:
    """What there is to judge by."""

    steps: StepTimes
    stacks: Stacks
    work: "_Work"
    borders: set[Line]
    busy: float  # milliseconds of a step, waiting and copies left out


def _typical(steps: StepTimes, phase: str) -> float:
    """The median milliseconds of a phase in a step."""
    return float(np.median(steps.times[:, PHASES.index(phase)]))


class _Work:
    """What the operations of a step take, and how much of that is work on their elements."""

    def __init__(self, tape: Tape, steps: StepTimes) -> None:
        self.ops = tape.ops
        self._with_calls = op_times(tape)
        self.ms = work_times(tape)
        self.calls = sum(max(0.0, time - work) for time, work in zip(self._with_calls, self.ms, strict=True))
        for phase in ("forward", "backward", "optimizer", "other"):
            members = [index for index, op in enumerate(self.ops) if op.phase == phase]
            measured, work = _typical(steps, phase), sum(self.ms[index] for index in members)
            if work > measured:  # the machine was busier while operations were timed than in the steps
                for index in members:
                    self.ms[index] *= measured / work
        self._backward = [index for index, op in enumerate(self.ops) if op.phase == "backward"]
        self._backward_ms = _typical(steps, "backward")
        self._places = {op.place for op in self.ops if op.place is not None and not op.name.startswith(_MAKING)}

    def of_loop(self, loop: LoopTime) -> tuple[list[int], list[int]]:
        """The loop's operations, by number: forward ones, backward ones."""
        held = [index for index, op in enumerate(self.ops) if op.place is not None and loop.holds(op.place)]
        forward = [index for index in held if self.ops[index].phase in ("forward", "other")]
        return forward, [index for index in held if self.ops[index].phase == "backward"]

    def at(self, place: CodeLine) -> bool:
        """Whether operations run on a line; making a tensor from Python's values is none."""
        return place in self._places

    def backward_ms(self, backward: list[int]) -> float:
        """The part of the backward pass that these take; autograd's own work goes with the calls."""
        whole = sum(self._with_calls[index] for index in self._backward)
        return self._backward_ms * sum(self._with_calls[index] for index in backward) / whole if whole else 0.0


def _judged(loop: LoopTime, seen: _StepEvidence) -> Finding | None:
    forward, backward = seen.work.of_loop(loop)
    return _of_operations(loop, forward, backward, seen) if forward else _of_plain_python(loop, seen)


def _of_operations(loop: LoopTime, forward: list[int], backward: list[int], seen: _StepEvidence) -> Finding | None:
    """A loop whose rounds call operations."""
    work, mean = seen.work, seen.steps.mean_ms
    if loop.ms < _LOOP_SHARE * mean or rounds_at_once([work.ops[index] for index in forward]):
        return None
    in_backward = work.backward_ms(backward)
    # Done at once, a loop's operations still have their elements to work on, and about twice so in backward.
    left = sum(work_at_once(work.ops[index], work.ms[index]) for index in forward) * (3 if backward else 1)
    rounds = len(split_into_rounds([work.ops[index] for index in forward]))
    message = f"the loop in {loop.where} takes {milliseconds(loop.ms)} of a step"
    if in_backward:
        message += f", and {milliseconds(in_backward)} more in the backward pass"
    message += (
        f" ({percent((loop.ms + in_backward) / mean)}): {rounds:,} rounds with {len(forward):,} small operations, each "
        "of which costs its call. All rounds at once spare most of that"
    )
    taken = any(work.ops[index].name == _TAKEN for index in forward)
    fix = f"# all rounds at once, in place of one after the other:\n{_AT_ONCE_TAKEN if taken else _AT_ONCE}"
    return _finding(message, fix, loop.heaviest, loop.lines, loop.ms, in_backward - left, seen)


def _of_plain_python(loop: LoopTime, seen: _StepEvidence) -> Finding | None:
    """A loop that computes by itself, without operations."""
    mean = seen.steps.mean_ms
    if loop.own_ms < _OWN_SHARE * loop.ms:
        return None
    lines = {
        place: ms
        for place, ms in plain_lines(seen.stacks, loop, seen.borders, seen.busy).items()
        if not seen.work.at(place)
    }
    total = sum(lines.values())
    if total < _LOOP_SHARE * mean or loop.own_ms < _LOOP_PART * total:
        return None
    heaviest = loop.heaviest if loop.own_ms >= total / 2 else max(lines, key=lambda place: lines[place])
    message = (
        f"Python computes one element after the other in {loop.where}: with what belongs to it "
        f"{milliseconds(total)} of a step ({percent(total / mean)}). All elements at once spare most of that"
    )
    fix = "# compute on whole arrays with torch or NumPy in place of this loop, or once before training"
    return _finding(message, fix, heaviest, lines, total, 0.0, seen)


def _finding(
    message: str,
    fix: str,
    place: CodeLine,
    lines: dict[CodeLine, float],
    sampled: float,
    beside: float,
    seen: _StepEvidence,
) -> Finding | None:
    """What a loop saves: its sampled time, and what it costs or leaves beside that."""
    mean = seen.steps.mean_ms
    saves, spread = sampled + beside, seen.stacks.spread_ms(sampled)
    if saves <= 3 * spread or saves < MEDIUM_SHARE * mean:
        return None
    return Finding(
        rule=PythonBound.id,
        message=message,
        fix=fix,
        place=place,
        saves_ms=saves,
        spread_ms=spread,
        verified="measured",
        details=(_lines(lines), _functions(seen.stacks)),
    )


def _without_culprit(seen: _StepEvidence) -> Finding:
    calls, count = seen.work.calls, len(seen.work.ops)
    return Finding(
        rule=PythonBound.id,
        message=(
            f"calling {count:,} operations takes {milliseconds(calls)} of a step "
            f"({percent(calls / seen.steps.median_ms)}), whatever they work on; no loop of yours is to blame"
        ),
        fix="# a larger batch: the same calls, more work in each; or torch.compile, which makes few calls of many",
        verified="replay",
        level="info",
        details=(_functions(seen.stacks),),
    )


def _beside(seen: _StepEvidence) -> list[Finding]:
    """What a step does beside data and model, if samples tell where."""
    taken: dict[tuple[CodeType, int], float] = defaultdict(float)
    functions: dict[CodeType, float] = defaultdict(float)
    for sample in seen.stacks.counted:
        users = next((entry for entry in sample.stack if is_users(entry[0])), None)
        if sample.phase == "other" and users is not None:
            taken[users] += sample.seconds
            functions[users[0]] += sample.seconds
    sampled = sum(taken.values())
    if not sampled:
        return []
    ms = seen.steps.phase_ms("other")
    function = max(functions, key=lambda code: functions[code])
    heaviest = place_of(*max((line for line in taken if line[0] is function), key=lambda line: taken[line]))
    lines = {place_of(*line): ms * seconds / sampled for line, seconds in taken.items()}
    where = "" if function.co_name == "<module>" else f" in `{function.co_qualname}`"
    return [
        Finding(
            rule=PythonBound.id,
            message=(
                f"{milliseconds(ms)} of a step ({percent(ms / seen.steps.mean_ms)}) are neither data nor model, most "
                f"of it{where} ({milliseconds(ms * functions[function] / sampled)}); no change of it was tried"
            ),
            fix=_BESIDE,
            place=heaviest,
            verified="measured",
            level="info",
            details=(_lines(lines), _functions(seen.stacks)),
        )
    ]


def _lines(lines: dict[CodeLine, float]) -> Detail:
    heaviest = sorted(lines.items(), key=lambda item: -item[1])[:_MOST_FUNCTIONS]
    return Detail(
        "The lines with most time",
        ("line", "ms a step", "source"),
        tuple((str(place.line), f"{ms:.3f}", place.source) for place, ms in heaviest),
    )


def _functions(stacks: Stacks) -> Detail:
    return Detail(
        f"The functions with most own time ({stacks.samples} samples of {stacks.steps} steps)",
        ("function", "own ms a step", "with callees"),
        tuple(
            (str(function), f"{function.own_ms:.3f}", f"{function.total_ms:.3f}")
            for function in stacks.functions[:_MOST_FUNCTIONS]
        ),
    )
