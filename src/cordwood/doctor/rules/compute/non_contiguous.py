"""``non-contiguous``: tensors whose memory order differs from their axes, where that costs time."""

from statistics import median
from time import perf_counter

import numpy as np
import torch

from cordwood.doctor.code.layout_fix import mended_array_line, mended_line
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain, CodeLine, Detail, Finding, Rule
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.replay.layout_trial import LayoutTrial, Proof
from cordwood.doctor.replay.layouts import Suspect, suspects
from cordwood.doctor.replay.replay import Replay, op_times

_MOST_SUSPECTS = 12
_MOST_LINES = 5
_TRANSPOSED_OPS = ("aten::t", "aten::transpose.int", "aten::permute", "aten::numpy_T")


class NonContiguous(Rule):
    """Replays a step with the suspects as they are, contiguous, and channels last."""

    id = "non-contiguous"
    title = "tensors in the wrong order in memory"
    measures = (
        "Every operation of a sampled step is written down with the strides of its tensors. A line is a suspect if it "
        "makes a tensor whose elements lie in another order than its axes (a transpose, a permute, `torch.from_numpy` "
        "of such an array), or in another memory format than what it is combined with, and normalisations, softmaxes, "
        "elementwise operations, convolutions or matrix products take that tensor. The whole step, its backward pass, "
        "too, is then replayed in turns: as it is, with a contiguous copy made by that line, and for images with one "
        "that is channels last. The copy's own time is counted. It speaks only of a gain that is larger than three "
        "spreads of its measurement and at least 3% of a step."
    )
    costs = (
        "Memory is read in lines of neighbours. An operation that walks along an axis whose elements lie far apart "
        "fetches a whole line for each of them, and cannot use vector instructions; one that combines two tensors of "
        "different order does so for every element. That can take ten or twenty times as long, and it is inherited: "
        "elementwise operations give their results the strides of their inputs."
    )
    wrong = (
        "Strides alone mean little: matrix products take transposed factors as they are, many convolutions repack "
        "what they get anyway, a DataLoader's collating makes batches contiguous, and a copy can cost as much as it "
        "saves. That is why nothing is said without a replay. It is silent about tensors that are written to in place, "
        "since a copy would change the results, about those that library code makes and uses up within one call, and "
        "about images that are channels last and meet another format only in the backward pass. "
        "Where operations took far longer in the run than in the replay, no more is promised than was replayed. "
        "Where nearly nothing but convolutions takes a tensor, and for images in a net that convolves, a tenth of a "
        "step must be saved."
    )
    cure = (
        "Make the tensor contiguous where it is made: `tensor = tensor.contiguous()`; for an array, "
        "`array = np.ascontiguousarray(array)` before `torch.from_numpy`. If it does not change from step to step, do "
        "that once, before the loop. For images in mixed memory formats, `.to(memory_format=torch.channels_last)` on "
        "the one that is not, or on none of them."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps()
        tape: Tape = evidence.need("tape")
        if evidence.seconds_to_spend <= 0:
            raise Abstain("no time was given for replays, and without one nothing is known of what layouts cost")
        times = op_times(tape)
        trial = LayoutTrial(tape, steps)
        candidates = [
            each
            for each in suspects(tape, times)
            if trial.could_matter(each, sum(times)) and _is_in_every_step(each, tape)
        ]
        proofs = trial.proofs(candidates[:_MOST_SUSPECTS], evidence.seconds_to_spend) if candidates else []
        if trial.not_tried:
            evidence.notes.append(f"non-contiguous: no time was left to replay {trial.not_tried} more lines")
        return [_finding(self.id, proof, trial.compute_ms, tape, evidence) for proof in proofs]


def _is_in_every_step(suspect: Suspect, tape: Tape) -> bool:
    """Whether the step watched before used these lines, too: what happens now and then is no gain per step."""
    if tape.earlier_places is None:
        return True
    return any(place in tape.earlier_places for place in suspect.takers)


def _finding(rule: str, proof: Proof, compute_ms: float, tape: Tape, evidence: Evidence) -> Finding:
    suspect, gain = proof.suspect, proof.gain
    takers = sorted(suspect.takers.items(), key=lambda item: -item[1])
    place = suspect.made_at or (takers[0][0] if takers else None)
    replayed = Detail(
        "the step's operations, replayed in turns",
        ("layout", "ms"),
        (("as it is", f"{gain.before_ms:.2f}"), (_words(proof.memory_format), f"{gain.after_ms:.2f}")),
    )
    lines = Detail(
        "lines that use it",
        ("line", "ms of its operations now", "source"),
        tuple((_short(each, place), f"{spent:.2f}", each.source) for each, spent in takers[:_MOST_LINES]),
    )
    return Finding(
        rule=rule,
        message=_message(proof, place, [each for each, _ in takers]),
        fix=_fix(proof, tape),
        place=place,
        saves_ms=gain.saves_ms,
        spread_ms=gain.spread_ms,
        verified="replay",
        details=(replayed, lines, _tensors(suspect), *_picture(proof, compute_ms), *_warnings(evidence)),
    )


def _words(memory_format: torch.memory_format) -> str:
    return "contiguous" if memory_format is torch.contiguous_format else "channels last"


def _short(place: CodeLine, beside: CodeLine | None) -> str:
    """A line in the same file goes by its number."""
    return f"line {place.line}" if beside is not None and place.file == beside.file else str(place)


def _message(proof: Proof, place: CodeLine | None, takers: list[CodeLine]) -> str:
    suspect, gain = proof.suspect, proof.gain
    others = [each for each in takers if each != place][:_MOST_LINES]
    where = "here" if not others else "in " + ", ".join(_short(each, place) for each in others)
    copied = "made once" if suspect.is_kept else "included"
    return (
        f"{_what(suspect, where)}: {gain.before_ms:.1f} ms of a step's operations become {gain.after_ms:.1f} ms "
        f"with a {_words(proof.memory_format)} copy, the copy {copied}"
    )


def _what(suspect: Suspect, where: str) -> str:
    meta = max(suspect.metas, key=lambda each: each.nbytes)
    shape = "x".join(map(str, meta.shape))
    if suspect.is_mixed:
        made = "" if suspect.made_at is None else " made here"
        return f"a contiguous tensor ({shape}){made} is combined {where} with tensors that are channels last"
    turned = suspect.is_numpy or suspect.made_by in _TRANSPOSED_OPS
    what = f"{'a transposed tensor' if turned else 'a tensor that is not contiguous'} ({shape}, strides {meta.stride})"
    if suspect.made_at is not None:
        return f"{what} is made here, and operations {where} are slow with it"
    older = "was made before the step" if suspect.is_kept else "comes from outside of the step's own lines"
    return f"operations {where} are slow with {what} that {older}"


def _fix(proof: Proof, tape: Tape) -> str:
    suspect = proof.suspect
    cure = ".contiguous()"
    if proof.memory_format is not torch.contiguous_format:
        cure = f".to(memory_format={proof.memory_format})"
    mended = mended_line(suspect.made_at, "" if suspect.is_numpy else suspect.made_by, cure)
    if mended is None:
        where = "once, before the loop" if suspect.is_kept else "where it is made, before it is used"
        mended = f"tensor = tensor{cure}  # {where}"
    fix = [mended]
    unseen = suspect.is_kept and suspect.made_at is None  # nobody knows whether it was an array
    if (suspect.is_numpy or unseen) and proof.memory_format is torch.contiguous_format:
        if unseen:
            fix.append("# or, if it comes from a NumPy array:")
        else:
            fix.append("# or in NumPy, best where the array itself is made, so that it is done once:")
        array = mended_array_line(suspect.made_at)
        fix.append(array or "array = np.ascontiguousarray(array)  # before torch.from_numpy(array)")
        slower = None if suspect.is_kept else _slower_in_numpy(suspect, tape)
        if slower is not None:
            fix.append(
                f"# (if it must be at every step: {slower[1]:.1f} ms with torch here, {slower[0]:.1f} ms with NumPy)"
            )
    return "\n".join(fix)


def _slower_in_numpy(suspect: Suspect, tape: Tape) -> tuple[float, float] | None:
    """Milliseconds of NumPy's and torch's copy, if NumPy's takes clearly longer."""
    meta = max(suspect.metas, key=lambda each: each.nbytes)
    tensor = Replay(tape).leaves.like(meta.number)
    if tensor is None or tensor.device.type != "cpu":
        return None
    array = tensor.numpy()
    mine, theirs = [], []
    for _ in range(3):
        start = perf_counter()
        np.ascontiguousarray(array)
        middle = perf_counter()
        tensor.contiguous()
        mine.append(1e3 * (middle - start))
        theirs.append(1e3 * (perf_counter() - middle))
    return (median(mine), median(theirs)) if median(mine) > 1.5 * median(theirs) else None


def _tensors(suspect: Suspect) -> Detail:
    rows = {(str(meta.shape), str(meta.stride), str(meta.dtype).removeprefix("torch.")) for meta in suspect.metas}
    return Detail("the tensors", ("shape", "strides", "type"), tuple(sorted(rows))[:_MOST_LINES])


def _picture(proof: Proof, compute_ms: float) -> tuple[Detail, ...]:
    """How the replay and the step of the run are to each other, where they are not nearly the same."""
    rows = []
    if proof.slower != 1.0:
        least = f"the operations took {proof.slower:.1f} times as long in the run"
        rows.append((f"{least}: the figures are those of the replay, the least that it saves",))
    elif proof.gain.before_ms < compute_ms / 2:
        told = f"{proof.gain.before_ms:.1f} ms of {compute_ms:.1f} ms"
        rows.append((f"operations are {told} of a step; the rest is Python, or waiting for the device",))
    if proof.scale != 1.0:
        busy = "less" if proof.scale > 1 else "more"
        rows.append((f"replayed, the same operations took {busy}: all figures are times {proof.scale:.2f}",))
    return (Detail("the replay beside the run", ("what differs",), tuple(rows)),) if rows else ()


def _warnings(evidence: Evidence) -> tuple[Detail, ...]:
    if not evidence.warnings:
        return ()
    rows = tuple((str(place or ""), text) for text, place in dict.fromkeys(evidence.warnings))
    return (Detail("PyTorch warned of it", ("line", "warning"), rows[:_MOST_LINES]),)
